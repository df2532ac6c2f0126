#!/usr/bin/env python3
"""image.py NAME OUT

Writes an OCI archive of weir.dev/server-NAME:test: the model server NAME of tests/servers/cases.py with its models, and
this machine's Python. All files are at the same paths as on this machine, so the commands of the cases are those of the
image. Needs no daemon.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
KUBERNETES = Path(__file__).resolve().parents[1]
ROOT = KUBERNETES.parents[1]
sys.path[:0] = [str(KUBERNETES), str(ROOT / "images"), str(ROOT / "tests/servers")]
import archive  # noqa: E402 - found by the line above
import cases  # noqa: E402
import libraries  # noqa: E402
import python_files  # noqa: E402
from tree import File, Folder, Link  # noqa: E402

STORED = 0  # no compression, because the archive never leaves the machine
# Programs that the commands of the cases and Triton start.
TOOLS = ("/usr/bin/env", "/bin/sh", "/bin/bash")


def main(name, out):
    case = next(case for case in cases.CASES if case.name == name)
    models = models_of(case)
    # Some servers write files beside their models.
    tree = {"/tmp": Folder(0o1777), str(models): Folder(0o1777), **python_files.files(), **tools()}
    for folder in (models, cases.MODELS, cases.SERVERS / name):
        tree |= files_below(folder)
    tree |= libraries.needed_by(tree, libraries.System.of_this_machine())
    tree |= modules_of_linked_python(tree)
    with tempfile.TemporaryDirectory(dir=out.parent) as cache:
        layer = archive.layer(tree, Path(cache), STORED)
        archive.write(out, [layer], {"Cmd": case.command(models), "User": "65532:65532"}, f"weir.dev/server-{name}", "test")


def models_of(case):
    """Creates the folder with the server's models."""
    folder = cases.models_in_image(case)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case.prepare(folder)
    # The command of some servers adds files.
    case.command(folder)
    return folder


def tools():
    return {path: File(Path(path).resolve(), 0o755) for path in TOOLS}


def modules_of_linked_python(tree):
    """Returns the standard library of the system's Python if a program of the tree is linked with that Python, as
    Triton's is. It may not be the Python of the environment."""
    linked = (re.match(r"libpython(3\.\d+)\.so", Path(path).name) for path in tree)
    folders = {Path(f"/usr/lib/python{found[1]}") for found in linked if found}
    return {path: file for folder in folders for path, file in python_files.modules_in(folder).items()}


def files_below(folder):
    """Returns the files and links below a folder, which may be a link itself."""
    top = folder.resolve()
    tree = {str(folder): Link(str(top))} if folder.is_symlink() else {}
    for path in top.rglob("*"):
        if path.is_symlink():
            tree |= link(path, top)
        elif path.is_file():
            tree[str(path)] = File(path, 0o755)
    return tree


def link(path, top):
    """Returns a link, and the file to which it leads if that is outside the folder, such as this machine's Python."""
    target = path.resolve()
    if target.is_relative_to(top) or not target.is_file():
        return {str(path): Link(os.readlink(path))}
    return {str(path): Link(str(target)), str(target): File(target, 0o755)}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
