#!/usr/bin/env python3
"""image.py OUT NAME:TAG PROGRAM

Writes an OCI archive of an image that contains one static program, /PROGRAM, and runs it. Needs no daemon.
"""

import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "images"))
import archive  # noqa: E402 - found by the line above
from tree import File  # noqa: E402

STORED = 0  # no compression, because the archive never leaves the machine


def main(out, name, program):
    repository, tag = name.rsplit(":", 1)
    config = {"Entrypoint": [f"/{program.name}"], "User": "65532:65532"}
    with tempfile.TemporaryDirectory(dir=out.parent) as cache:
        layer = archive.layer({f"/{program.name}": File(program, 0o755)}, Path(cache), STORED)
        archive.write(out, [layer], config, repository, tag)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3]))
