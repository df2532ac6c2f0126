"""A file tree of an image, by path, which always makes the same archive bytes."""

import hashlib
import io
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple


class File(NamedTuple):
    """A file, given by its bytes or by the path of a file with the content."""

    content: object
    mode: int = 0o644

    def open(self):
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else open(self.content, "rb")

    @property
    def size(self):
        return len(self.content) if isinstance(self.content, bytes) else Path(self.content).stat().st_size


class Link(NamedTuple):
    """A symbolic link."""

    target: str


class Folder(NamedTuple):
    """A folder that must exist even if it is empty."""

    mode: int = 0o755


def with_parents(tree):
    """Returns the tree with the folders that its paths imply, sorted so that a folder comes before its content."""
    whole = dict(tree)
    for path in tree:
        for parent in list(PurePosixPath(path).parents)[:-1]:
            whole.setdefault(str(parent), Folder())
    return dict(sorted(whole.items()))


def write_tar(tree, out):
    """Writes the tree to a file object: sorted, owned by root, without times."""
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, entry in with_parents(tree).items():
            add(archive, path.lstrip("/"), entry)


def add(archive, name, entry):
    member = tarfile.TarInfo(name)
    if isinstance(entry, Link):
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry.target, 0o777
        archive.addfile(member)
    elif isinstance(entry, Folder):
        member.type, member.mode = tarfile.DIRTYPE, entry.mode
        archive.addfile(member)
    else:
        member.size, member.mode = entry.size, entry.mode
        with entry.open() as content:
            archive.addfile(member, content)


def unpack(tree, folder):
    """Writes the tree below a folder, which is created anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path, entry in with_parents(tree).items():
        target = folder / path.lstrip("/")
        if isinstance(entry, Link):
            target.symlink_to(entry.target)
        elif isinstance(entry, Folder):
            target.mkdir()
            target.chmod(entry.mode)
        else:
            with entry.open() as content, open(target, "wb") as file:
                shutil.copyfileobj(content, file)
            target.chmod(entry.mode)


class Digest:
    """A file object that hashes and counts the bytes written to it, and passes them on."""

    def __init__(self, inner=None):
        self.inner, self.hash, self.size = inner, hashlib.sha256(), 0

    def write(self, chunk):
        self.hash.update(chunk)
        self.size += len(chunk)
        if self.inner is not None:
            self.inner.write(chunk)
        return len(chunk)

    def tell(self):
        return self.size

    def flush(self):
        pass

    @property
    def hex(self):
        return self.hash.hexdigest()
