"""gs:// against a small server with the two requests that a fetch sends."""

from urllib.parse import parse_qs, unquote, urlparse

from conftest import fetch, files

OBJECTS = {"m/1/model.pt": b"weights", "m/config.pbtxt": b"x", "other": b"y"}
DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


def answer(request):
    url = urlparse(request.path)
    query, key = parse_qs(url.query), unquote(url.path).removeprefix("/models").strip("/")
    if "list-type" in query:
        prefix = query.get("prefix", [""])[0]
        entry = "<Contents><Key>{}</Key><Size>{}</Size><ETag>\"1\"</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        entries = [entry.format(key, len(body)) for key, body in OBJECTS.items() if key.startswith(prefix)]
        return send(request, 200, f"<ListBucketResult>{''.join(entries)}</ListBucketResult>".encode())
    if key not in OBJECTS:
        return send(request, 404, b"<Error><Code>NoSuchKey</Code></Error>")
    return send(request, 200, OBJECTS[key])


def send(request, status, body):
    request.send_response(status)
    for name, value in {"content-length": str(len(body)), "etag": '"1"', "last-modified": DATE}.items():
        request.send_header(name, value)
    request.send_header("x-goog-generation", "1")
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(body)


def test_objects_and_prefixes(serve, tmp_path):
    variables = {"STORAGE_EMULATOR_HOST": serve(answer)}
    done = fetch("gs://models/m", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == {"1/model.pt": b"weights", "config.pbtxt": b"x"}
    done = fetch("gs://models/other", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path)["other"] == b"y"
    done = fetch("gs://models/none", tmp_path, variables)
    assert "no object has this key" in done.stderr
