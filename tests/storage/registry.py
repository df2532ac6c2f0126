"""A small registry: images with a directory of models, and artifacts with titled files."""

import hashlib
import io
import json
import tarfile
from urllib.parse import unquote, urlparse

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def tar(files, links=(), packing=""):
    """Returns an archive with these files, and with symbolic links."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=f"w:{packing}") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for name, to in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, to
            archive.addfile(entry)
    return packed.getvalue()


class Registry:
    """Answers requests as a registry does. `address` is that of its server, which is known after its start."""

    def __init__(self):
        self.blobs, self.manifests = {}, {}

    def blob(self, content, media_type, **annotations):
        self.blobs[digest(content)] = content
        found = {"mediaType": media_type, "digest": digest(content), "size": len(content)}
        return found | ({"annotations": annotations} if annotations else {})

    def push(self, name, layers, config=CONFIG):
        """Adds an image or artifact `REPOSITORY:TAG`, and returns its descriptor."""
        body = {"schemaVersion": 2, "mediaType": MANIFEST, "config": self.blob(b"{}", config), "layers": layers}
        return self.add(name, body)

    def add(self, name, body):
        content = json.dumps(body).encode()
        repository, _, tag = name.partition(":")
        self.manifests[repository, tag] = self.manifests[repository, digest(content)] = (body["mediaType"], content)
        return {"mediaType": body["mediaType"], "digest": digest(content), "size": len(content)}

    def __call__(self, request):
        path = unquote(urlparse(request.path).path)
        if path in ("/v2", "/v2/"):
            return send(request, 200, b"{}")
        repository, kind, version = path.removeprefix("/v2/").rsplit("/", 2)
        if kind == "blobs" and version in self.blobs:
            return send(request, 200, self.blobs[version])
        if (repository, version) in self.manifests:
            media_type, content = self.manifests[repository, version]
            headers = {"content-type": media_type, "docker-content-digest": digest(content)}
            return send(request, 200, content, headers)
        return send(request, 404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')


def send(request, status, body, headers=None):
    request.send_response(status)
    for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
        request.send_header(name, value)
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(body)
