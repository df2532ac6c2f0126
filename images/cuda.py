"""Provides libtorch for NVIDIA GPUs from PyTorch's wheels, in the wheels' own layout: torch's libraries look for
NVIDIA's in `$ORIGIN/../../nvidia`."""

import fnmatch
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import elf
from tree import File

HERE = Path(__file__).resolve().parent
WHEELS = HERE / "cuda.txt"
CACHE = HERE.parent / "target/images/cuda"
# Says which wheels the program's libtorch is from; scripts/libtorch.py writes it.
STAMP = HERE.parent / ".libtorch/stamp.json"

# Libraries that the runtime opens; the rest of torch/lib is for Python.
ROOTS = ("libtorch_cpu.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so")
# Libraries that are opened by name at run time, in addition to linked ones.
OPENED = ("libcudnn*.so.*", "libnvrtc*.so.*", "libnvJitLink.so.*", "libcaffe2_nvrtc.so")


def tree(folder):
    """Returns the libraries: torch's in `folder`, and NVIDIA's where torch's look for them."""
    check_release()
    wheels = unpacked()
    nvidia = str(Path(folder).parent.parent / "nvidia")
    found = {path.name: path for path in wheels.glob("**/*.so*") if "lib" in path.parts and path.is_file()}
    return {
        f"{folder}/{path.name}" if "torch" in path.relative_to(wheels).parts
        else f"{nvidia}/{path.relative_to(wheels / 'nvidia')}": File(path, 0o755)
        for path in wanted(found)
    }


def check_release():
    """Refuses libraries of another release than the program was linked with."""
    pinned = WHEELS.read_text().split("torch==")[1].split(" ")[0]
    if f"torch=={pinned}" not in json.loads(STAMP.read_text())["wheels"]:
        sys.exit(f"the image for GPUs has libtorch {pinned}: build it with TORCH={pinned}")


def wanted(found):
    """Returns the libraries that are opened, and all libraries that they need, sorted."""
    waiting = [found[name] for name in ROOTS if name in found]
    waiting += [path for name, path in found.items() if any(fnmatch.fnmatch(name, pattern) for pattern in OPENED)]
    taken = set()
    while waiting:
        path = waiting.pop()
        if path not in taken:
            taken.add(path)
            waiting += [found[name] for name in elf.needs(path).libraries if name in found]
    return sorted(taken)


def unpacked():
    """Returns the folder of the wheels, which are unpacked only once."""
    folder = CACHE / hashlib.sha256(WHEELS.read_bytes()).hexdigest()[:16]
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        print("fetching PyTorch's wheels for NVIDIA GPUs (3 GB)", flush=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:",
             "--no-compile", "--no-cache-dir", "--python-version", "3.11", "--implementation", "cp", "--abi", "cp311",
             "--abi", "none", *platforms(), "--target", str(partial), "--requirement", str(WHEELS)],
            check=True,
        )
        partial.rename(folder)
    return folder


def platforms():
    """Returns all platform tags of the wheels, because pip compares tags literally."""
    tags = ["manylinux1_x86_64", "manylinux2010_x86_64", "manylinux2014_x86_64"]
    tags += [f"manylinux_2_{minor}_x86_64" for minor in (17, 18, 25, 27, 28)]
    return [part for tag in tags for part in ("--platform", tag)]
