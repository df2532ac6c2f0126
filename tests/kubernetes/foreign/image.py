#!/usr/bin/env python3
"""image.py OUT

Writes an OCI archive of weir.dev/foreign:test: this machine's Python with its standard library, and server.py. Needs no
daemon.
"""

import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "images")]
import archive  # noqa: E402 - found by the line above
import libraries  # noqa: E402
import python_files  # noqa: E402
from tree import File, Folder  # noqa: E402

STORED = 0  # no compression, because the archive never leaves the machine
SERVER = "/server.py"


def main(out):
    tree = {SERVER: File(HERE / "server.py"), "/tmp": Folder(0o1777), **python_files.files()}
    tree |= libraries.needed_by(tree, libraries.System.of_this_machine())
    config = {
        "Entrypoint": [str(python_files.PROGRAM), "-B", SERVER],
        "User": "65532:65532",
    }
    with tempfile.TemporaryDirectory(dir=out.parent) as cache:
        layer = archive.layer(tree, Path(cache), STORED)
        archive.write(out, [layer], config, "weir.dev/foreign", "test")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
