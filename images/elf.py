"""Reads the dynamic loader's instructions from an ELF file."""

import re
import subprocess
from typing import NamedTuple

MAGIC = b"\x7fELF"


class Needs(NamedTuple):
    """The names of the libraries that a file needs, the folders to search before the system's, and the loader."""

    libraries: tuple
    run_path: tuple
    interpreter: str


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def needs(path):
    text = subprocess.run(
        ["readelf", "--wide", "--dynamic", "--program-headers", str(path)],
        check=True, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin"},
    ).stdout
    return parse(text)


def parse(text):
    """Parses the output of `readelf --dynamic --program-headers`."""
    run_path = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", text)
    interpreter = re.search(r"Requesting program interpreter: ([^\]]+)\]", text)
    return Needs(
        libraries=tuple(re.findall(r"\(NEEDED\).*\[(.*)\]", text)),
        run_path=tuple(folder for paths in run_path for folder in paths.split(":") if folder),
        interpreter=interpreter.group(1) if interpreter else "",
    )
