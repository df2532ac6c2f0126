"""Files of this machine's Python, for images."""

import sys
import sysconfig
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "images"))
from tree import File  # noqa: E402 - found by the line above

PROGRAM = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
# Large parts of the standard library that servers do not use.
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "ensurepip", "lib2to3", "tkinter", "turtledemo", "__pycache__"}


def files():
    """Returns the interpreter, its shared library if there is one, and its modules, each at the same path as on this
    machine."""
    found = [PROGRAM, *Path(sysconfig.get_config_var("LIBDIR")).glob(sysconfig.get_config_var("INSTSONAME") or "")]
    return {str(path): File(path.resolve(), 0o755) for path in found if path.is_file()} | modules_in(Path(sysconfig.get_paths()["stdlib"]))


def modules_in(folder):
    """Returns the files of a folder with the standard library."""
    found = (path for path in folder.rglob("*") if not left_out(path.relative_to(folder).parts))
    return {str(path): File(path.resolve(), 0o755) for path in found if path.is_file()}


def left_out(parts):
    return LEFT_OUT & set(parts) or parts[0].startswith("config-")
