"""A small Google Cloud Storage: the XML requests of a fetch, and the JSON requests of google-cloud-storage."""

import json
from urllib.parse import parse_qs, unquote, urlparse
from xml.sax.saxutils import escape

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
ENTRY = (
    '<Contents><Key>{}</Key><Size>{}</Size><ETag>"1"</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>'
)


class Gcs:
    """Answers requests about the bucket `models`."""

    def __init__(self, objects, token=None):
        self.objects, self.token = objects, token

    def __call__(self, request):
        url = urlparse(request.path)
        path, query = unquote(url.path), parse_qs(url.query)
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return send(request, 403, b"<Error><Code>AccessDenied</Code></Error>")
        if path == "/storage/v1/b/models/o":
            prefix = query.get("prefix", [""])[0]
            items = [{"name": name, "bucket": "models"} for name in self.objects if name.startswith(prefix)]
            return send(request, 200, json.dumps({"items": items}).encode())
        if path.startswith("/download/storage/v1/b/models/o/"):
            return self.object(request, path.removeprefix("/download/storage/v1/b/models/o/"))
        if not path.startswith("/models"):
            return send(request, 404, b"<Error><Code>NoSuchBucket</Code></Error>")
        if "list-type" in query:
            prefix = query.get("prefix", [""])[0]
            listed = sorted((name, body) for name, body in self.objects.items() if name.startswith(prefix))
            entries = "".join(ENTRY.format(escape(name), len(body)) for name, body in listed)
            return send(request, 200, f"<ListBucketResult>{entries}</ListBucketResult>".encode())
        return self.object(request, path.removeprefix("/models").removeprefix("/"))

    def object(self, request, name):
        if name not in self.objects:
            return send(request, 404, b"<Error><Code>NoSuchKey</Code></Error>")
        return send(request, 200, self.objects[name])


def send(request, status, body):
    request.send_response(status)
    for name, value in {"content-length": str(len(body)), "etag": '"1"', "last-modified": DATE}.items():
        request.send_header(name, value)
    request.send_header("x-goog-generation", "1")
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(body)
