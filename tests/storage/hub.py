"""A small Hub: one model with two commits, small files in git and a large one behind a redirect."""

import hashlib
import json
import ssl
from urllib.parse import parse_qs, unquote, urlparse

OLD, NEW = "a" * 40, "b" * 40
WEIGHTS = bytes(range(256)) * 80_000
FILES = {
    OLD: {"config.json": b"{}", "1/model.pt": WEIGHTS},
    NEW: {"config.json": b'{"new": 1}', "1/model.pt": WEIGHTS, "docs/read me.md": b"# m"},
}
NAMES = {"main": NEW, "v1": OLD, OLD: OLD, NEW: NEW}
TOKEN = "hf_token_of_the_test"


def git_oid(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def entry(path, content):
    found = {"type": "file", "path": path, "size": len(content), "oid": git_oid(content)}
    if len(content) > 1_000_000:
        found["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return found


class Hub:
    """Answers requests as the Hub does; `gated` models need the token."""

    def __init__(self, gated=False):
        self.gated, self.sent, self.paths = gated, 0, []

    def __call__(self, request):
        url = urlparse(request.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        self.paths.append(url.path)
        if parts[0] == "cdn":
            digest = hashlib.sha256(WEIGHTS).hexdigest()
            # The Hub's client follows redirects within one host before it reads these headers.
            commit = NEW if url.query.endswith(NEW) else OLD
            headers = {"etag": f'"{digest}"', "X-Linked-Etag": f'"{digest}"', "X-Repo-Commit": commit}
            return self.send_range(request, WEIGHTS, headers)
        if self.gated and request.headers.get("authorization") != f"Bearer {TOKEN}":
            return self.send(request, 401, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"})
        if parts[:2] == ["api", "models"] and parts[2:4] == ["org", "net"]:
            return self.api(request, parts[4:], parse_qs(url.query))
        if parts[:3] == ["org", "net", "resolve"] and parts[3] in NAMES:
            return self.resolve(request, NAMES[parts[3]], "/".join(parts[4:]))
        return self.send(request, 404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def api(self, request, parts, _query):
        commit = NAMES.get(parts[1] if len(parts) > 1 else "main")
        if commit is None:
            return self.send(request, 404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        entries = [entry(path, content) for path, content in FILES[commit].items()]
        if parts and parts[0] == "tree":
            return self.send(request, 200, json.dumps(entries).encode())
        siblings = [{"rfilename": found["path"]} for found in entries]
        info = {"id": "org/net", "modelId": "org/net", "sha": commit, "siblings": siblings, "tags": [], "private": False}
        return self.send(request, 200, json.dumps(info).encode())

    def resolve(self, request, commit, path):
        content = FILES[commit].get(path)
        if content is None:
            return self.send(request, 404, b"", {"X-Error-Code": "EntryNotFound"})
        headers = {"X-Repo-Commit": commit, "etag": f'"{git_oid(content)}"'}
        if len(content) > 1_000_000:
            scheme = "https" if isinstance(request.connection, ssl.SSLSocket) else "http"
            headers |= {
                "X-Linked-Etag": '"%s"' % hashlib.sha256(content).hexdigest(),
                "X-Linked-Size": str(len(content)),
                "Location": f"{scheme}://{request.headers['host']}/cdn/weights?signature={commit}",
            }
            return self.send(request, 302, b"", headers)
        return self.send_range(request, content, headers)

    def send_range(self, request, content, headers):
        wanted = request.headers.get("range")
        if wanted is None:
            return self.send(request, 200, content, headers)
        first, last = wanted.removeprefix("bytes=").split("-")
        piece = content[int(first) : int(last or len(content) - 1) + 1]
        headers["content-range"] = f"bytes {first}-{int(first) + len(piece) - 1}/{len(content)}"
        return self.send(request, 206, piece, headers)

    def send(self, request, status, body, headers=None):
        request.send_response(status)
        for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD":
            self.sent += len(body)
            request.wfile.write(body)
