#!/usr/bin/env python3
"""image.py OUT

Writes an OCI archive of weir.dev/foreign:test: this machine's Python with its standard library, and server.py. Needs no
daemon.
"""

import sys
import sysconfig
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "images"))
import archive  # noqa: E402 - found by the line above
import libraries  # noqa: E402
from tree import File, Folder  # noqa: E402

STORED = 0  # no compression, because the archive never leaves the machine
SERVER = "/server.py"
# Large parts of the standard library that the server does not use.
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "ensurepip", "lib2to3", "tkinter", "turtledemo", "__pycache__"}


def main(out):
    program = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    tree = {SERVER: File(HERE / "server.py"), "/tmp": Folder(0o1777), **python(program)}
    tree |= libraries.needed_by(tree, libraries.System.of_this_machine())
    config = {
        "Entrypoint": [str(program), "-B", SERVER],
        "User": "65532:65532",
    }
    with tempfile.TemporaryDirectory(dir=out.parent) as cache:
        layer = archive.layer(tree, Path(cache), STORED)
        archive.write(out, [layer], config, "weir.dev/foreign", "test")


def python(program):
    """Returns the interpreter, its shared library if there is one, and its modules, each at the same path as on this
    machine."""
    modules = Path(sysconfig.get_paths()["stdlib"])
    found = [program, *Path(sysconfig.get_config_var("LIBDIR")).glob(sysconfig.get_config_var("INSTSONAME") or "")]
    found += [path for path in modules.rglob("*") if not left_out(path.relative_to(modules).parts)]
    return {str(path): File(path.resolve(), 0o755) for path in found if path.is_file()}


def left_out(parts):
    return LEFT_OUT & set(parts) or parts[0].startswith("config-")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
