"""Writes an image as an archive that containerd, podman and skopeo read as an OCI layout, and Docker in its own format.
"""

import gzip
import hashlib
import json
import platform
import tarfile
from typing import NamedTuple

from tree import Digest, File, add, write_tar

MEDIA = "application/vnd.oci.image."
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "1970-01-01T00:00:00Z"  # archives contain no time of creation, so that the same content makes the same bytes

# At a higher level, compressing takes more time than a pull saves.
LEVEL = 6


class Layer(NamedTuple):
    """A compressed layer in the cache, and the digest of its uncompressed content."""

    path: object
    digest: str
    size: int
    unpacked: str


def layer(tree, cache, level=LEVEL):
    """Returns the layer of a tree, which is compressed only once for the same content."""
    cache.mkdir(parents=True, exist_ok=True)
    unpacked = Digest()
    write_tar(tree, unpacked)
    path = cache / f"{unpacked.hex}.tar.gz"
    if not path.exists():
        partial = path.with_suffix(".partial")
        with open(partial, "wb") as out, gzip.GzipFile("", "wb", level, out, mtime=0) as packed:
            write_tar(tree, Digest(packed))
        partial.rename(path)
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return Layer(path, digest.hexdigest(), path.stat().st_size, unpacked.hex)


def configuration(layers, config):
    """Returns the image's configuration: how it runs, and the digests of its unpacked layers."""
    return {
        "created": EPOCH,
        "os": "linux",
        "architecture": ARCHITECTURES[platform.machine()],
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.unpacked}" for layer in layers]},
        "history": [{"created": EPOCH, "created_by": "weir"} for _ in layers],
    }


def files(layers, config, repository, tag):
    """Returns the archive's files by name."""
    blobs = {}

    def blob(kind, value):
        content = json.dumps(value, separators=(",", ":")).encode()
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = File(content)
        return {"mediaType": MEDIA + kind, "digest": f"sha256:{digest}", "size": len(content)}

    config = blob("config.v1+json", configuration(layers, config))
    manifest = blob("manifest.v1+json", {
        "schemaVersion": 2,
        "mediaType": MEDIA + "manifest.v1+json",
        "config": config,
        "layers": [
            {"mediaType": MEDIA + "layer.v1.tar+gzip", "digest": f"sha256:{layer.digest}", "size": layer.size}
            for layer in layers
        ],
    })
    manifest["annotations"] = {
        "io.containerd.image.name": reference(repository, tag),
        "org.opencontainers.image.ref.name": tag,
    }
    packed = {f"blobs/sha256/{layer.digest}": File(layer.path) for layer in layers}
    docker = [{
        "Config": "blobs/sha256/" + config["digest"].split(":")[1],
        "RepoTags": [f"{repository}:{tag}"],
        "Layers": list(packed),
    }]
    return {
        "oci-layout": File(b'{"imageLayoutVersion":"1.0.0"}'),
        "index.json": File(json.dumps({"schemaVersion": 2, "mediaType": MEDIA + "index.v1+json", "manifests": [manifest]}).encode()),
        "manifest.json": File(json.dumps(docker).encode()),
        **blobs,
        **packed,
    }


def reference(repository, tag):
    """Returns the name as containerd stores it, with the registry that a short name implies."""
    first = repository.split("/")[0]
    if "/" in repository and ("." in first or ":" in first or first == "localhost"):
        return f"{repository}:{tag}"
    return f"docker.io/{repository if '/' in repository else 'library/' + repository}:{tag}"


def write(path, layers, config, repository, tag):
    """Writes the archive atomically."""
    partial = path.with_suffix(".partial")
    with tarfile.open(partial, "w", format=tarfile.GNU_FORMAT) as out:
        for name, file in sorted(files(layers, config, repository, tag).items()):
            add(out, name, file)
    partial.rename(path)
