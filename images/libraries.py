"""Finds the libraries that the programs of an image need on this machine, and resolves them within the image."""

import re
import subprocess
from pathlib import Path, PurePosixPath

import elf
from tree import File, Link


class System:
    """The libraries of this machine by name, and the folder in which the image has them.

    All of them are in the folder of the C library, where the loader looks without a cache or configuration.
    """

    def __init__(self, libraries):
        self.libraries = libraries
        self.folder = str(Path(libraries["libc.so.6"]).parent.resolve())

    @classmethod
    def of_this_machine(cls):
        listed = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
        found = {}
        for name, path in re.findall(r"^\s*(\S+) \(libc6,x86-64\) => (\S+)$", listed, re.MULTILINE):
            found.setdefault(name, path)
        return cls(found)


def needed_by(tree, system, needs=elf.needs):
    """Returns the system libraries that a tree's ELF files need and the tree lacks, and the loader."""
    added = {}
    waiting = elf_files(tree)
    while waiting:
        path, file = waiting.popitem()
        asked = needs(file.content)
        if asked.interpreter:
            added.update(loader(asked.interpreter))
        for name in asked.libraries:
            if name in system.libraries and not resolve(path, name, asked, {**tree, **added}, system):
                place = f"{system.folder}/{name}"
                added[place] = waiting[place] = File(Path(system.libraries[name]).resolve(), 0o755)
    return added


def unresolved(tree, system, allowed=(), needs=elf.needs):
    """Returns the libraries that the loader would not find in a complete tree, as pairs of a file and a library's name.
    """
    missing = []
    for path, file in elf_files(tree).items():
        asked = needs(file.content)
        for name in asked.libraries:
            if name not in allowed and not resolve(path, name, asked, tree, system):
                missing.append((path, name))
    return sorted(missing)


def elf_files(tree):
    """Returns the ELF files of a tree by path."""
    files = {path: entry for path, entry in tree.items() if isinstance(entry, File)}
    return {path: entry for path, entry in files.items() if isinstance(entry.content, Path) and elf.is_elf(entry.content)}


def loader(path):
    """Returns the entries for the loader at the path where the kernel expects it, which on most systems contains a
    symbolic link."""
    first, folder = f"/{PurePosixPath(path).parts[1]}", Path(path).parent.resolve()
    entries = {f"{folder}/{Path(path).name}": File(Path(path).resolve(), 0o755)}
    if str(folder) != str(Path(path).parent):
        entries[first] = Link(str(Path(first).resolve()).lstrip("/"))
    return entries


def resolve(path, name, asked, tree, system):
    """Returns the path in the tree at which the loader finds a library, or None."""
    origin = str(PurePosixPath(path).parent)
    folders = [folder.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for folder in asked.run_path]
    for folder in [*folders, system.folder, "/usr/lib64"]:
        place = normal(f"{folder}/{name}")
        if place in tree:
            return place
    return None


def normal(path):
    """Returns the path without `..`, resolved textually, because no folder in the image's library paths is a link."""
    parts = []
    for part in PurePosixPath(path).parts[1:]:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/" + "/".join(parts)
