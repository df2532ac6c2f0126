#!/usr/bin/env python3
"""image.py OUT NAME:TAG PROGRAM

Writes an OCI archive of an image that holds one static program, /PROGRAM, and runs it. Needs no daemon.
"""

import hashlib
import io
import json
import platform
import sys
import tarfile
from pathlib import Path

MEDIA = "application/vnd.oci.image."
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def tar(files):
    """An archive of files by name, the same bytes each time."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as out:
        for name, (mode, content) in files.items():
            member = tarfile.TarInfo(name)
            member.mode, member.size = mode, len(content)
            out.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def image(name, program):
    """The files of the archive by path."""
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def blob(kind, content):
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": MEDIA + kind, "digest": f"sha256:{digest}", "size": len(content)}

    layer = blob("layer.v1.tar", tar({program.name: (0o755, program.read_bytes())}))
    config = {
        "os": "linux",
        "architecture": ARCHITECTURES[platform.machine()],
        "config": {"Entrypoint": [f"/{program.name}"], "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MEDIA + "manifest.v1+json",
        "config": blob("config.v1+json", json.dumps(config).encode()),
        "layers": [layer],
    }
    entry = blob("manifest.v1+json", json.dumps(manifest).encode())
    entry["annotations"] = {"io.containerd.image.name": name}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    return {path: (0o644, content) for path, content in files.items()}


if __name__ == "__main__":
    out, name, program = sys.argv[1:]
    Path(out).write_bytes(tar(image(name, Path(program))))
