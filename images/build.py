#!/usr/bin/env python3
"""Writes Weir's images as archives, without a daemon: target/images/weir.tar and weir-runtime.tar.

    images/build.py --programs target/dist       # run by `make image`
    images/build.py --trees --programs DIR       # only the file trees as folders, which the Dockerfile copies
    images/build.py --dockerfile                 # rewrites images/Dockerfile

An image contains a program, the libraries that it needs from this machine, from libtorch and from onnxruntime, and the certificate
authorities that Mozilla trusts. The script needs readelf and strip, which come with a C++ compiler.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import archive
import cuda
import definition
import dockerfile
import libraries
from definition import CERTIFICATES, CUDA, HOME, IMAGES, MIB, SYSTEM_FILES, USER
from tree import File, Folder, Link, unpack

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "target/images"
# Mozilla's authorities, without those that the owner of this machine has added.
AUTHORITIES = Path("/usr/share/ca-certificates/mozilla")


class Failure(Exception):
    """An error with its cause and its remedy, as a message for users."""


def main():
    asked = arguments()
    if asked.dockerfile:
        (ROOT / "images/Dockerfile").write_text(dockerfile_text())
        return
    images = [*IMAGES, *([CUDA] if asked.cuda else [])]
    OUT.mkdir(parents=True, exist_ok=True)
    for image in images:
        layers = trees(image, asked.programs)
        check_resolved(image, merged(layers))
        if asked.trees:
            unpack(merged(layers), OUT / image.stem)
        else:
            write(image, layers)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=Path, default=ROOT / "target/dist", help="folder of the built programs")
    parser.add_argument("--cuda", action="store_true", help="also the runtime for NVIDIA GPUs (downloads 3 GB)")
    parser.add_argument("--trees", action="store_true", help="write the file trees only, as folders")
    parser.add_argument("--dockerfile", action="store_true", help="rewrite images/Dockerfile")
    return parser.parse_args()


def trees(image, programs):
    """Returns the trees of the layers, starting with the one that changes least: system, libraries, program."""
    system = libraries.System.of_this_machine()
    program = program_tree(image, programs)
    extra = library_tree(image)
    base = {**system_tree(), **libraries.needed_by({**program, **extra}, system)}
    return [layer for layer in (base, extra, program) if layer]


def merged(layers):
    return {path: entry for layer in layers for path, entry in layer.items()}


def system_tree():
    files = {path: File(text.encode()) for path, text in SYSTEM_FILES.items()}
    return {**files, CERTIFICATES: File(authorities()), "/tmp": Folder(0o1777)}


def authorities():
    found = sorted(AUTHORITIES.glob("*.crt"))
    if not found:
        raise Failure(f"{AUTHORITIES} has no certificates. On Debian and Ubuntu: apt-get install ca-certificates")
    return b"".join(path.read_bytes().rstrip() + b"\n" for path in found)


def program_tree(image, programs):
    name = image.program.name
    built = programs / name
    if not built.exists():
        raise Failure(f"{built} is missing: make image builds it")
    tree = {image.entry_point: File(stripped(built), 0o755), f"{HOME}/LICENSE": File(ROOT / "LICENSE")}
    return {**tree, **{link: Link(image.entry_point) for link in image.program.links}}


def stripped(program):
    """Returns the program without symbols and line tables."""
    out = OUT / "stripped" / program.name
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "--strip-all", "-o", str(out), str(program)], check=True)
    return out


def library_tree(image):
    if not image.libraries:
        return {}
    torch = {"libtorch": libtorch_tree, "cuda": cuda.tree}[image.libraries](f"{HOME}/lib")
    return {**torch, **onnxruntime_tree()}


def libtorch_tree(folder):
    return {f"{folder}/{path.name}": File(path, 0o755) for path in sorted((ROOT / ".libtorch/lib").iterdir())}


def onnxruntime_tree():
    """Returns onnxruntime's library for CPUs, which the program opens by name, and its notices."""
    folder = ROOT / ".onnxruntime"
    notices = {f"{HOME}/onnxruntime/{name}": File(folder / name) for name in ("LICENSE", "ThirdPartyNotices.txt")}
    library = folder / "lib/libonnxruntime.so.1"
    return {f"{HOME}/lib/{library.name}": File(library, 0o755), **notices}


def check_resolved(image, tree):
    allowed = definition.DRIVER_LIBRARIES if image.libraries == "cuda" else ()
    missing = libraries.unresolved(tree, libraries.System.of_this_machine(), allowed)
    if missing:
        lines = "\n".join(f"  {path} needs {name}" for path, name in missing)
        raise Failure(f"the image {image.stem} lacks libraries:\n{lines}")


def write(image, layers):
    packed = [archive.layer(layer, OUT / "layers") for layer in layers]
    path = OUT / f"{image.stem}.tar"
    archive.write(path, packed, config(image), image.name, version() + image.suffix)
    size = sum(layer.size for layer in packed)
    print(f"{path.relative_to(ROOT)}: {image.name}:{version()}{image.suffix}, {size / MIB:.1f} MiB compressed")
    if size > image.limit:
        raise Failure(f"{image.stem} may have {image.limit // MIB} MiB")


def config(image):
    """Returns the settings with which the image runs."""
    return {
        "User": f"{USER}:{USER}",
        "Env": [f"{name}={value}" for name, value in image.variables],
        "Entrypoint": [image.entry_point],
        "WorkingDir": "/",
        "ExposedPorts": {f"{port}/tcp": {} for port in image.ports},
        "Labels": {
            "org.opencontainers.image.title": image.name,
            "org.opencontainers.image.description": image.description,
            "org.opencontainers.image.version": version(),
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.source": definition.SOURCE,
        },
    }


def version():
    return re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE).group(1)


def toolchain():
    return re.search(r'^channel = "(.*)"$', (ROOT / "rust-toolchain.toml").read_text(), re.MULTILINE).group(1)


def dockerfile_text():
    return dockerfile.dockerfile(toolchain(), config)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"image: {failure}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"image: {error}: {error.stderr}")
