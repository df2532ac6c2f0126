"""Sources that cannot be fetched: one sentence says why and what to do, on the terminal and for the kubelet.

A server that stalls for a minute is tried in fetch/tests. sentences.json has the sentences. The tests of cluster/kubernetes check that the condition of a service repeats each.
"""

import io
import json
import pathlib
import socket
import struct
import tarfile
import threading
import time

import pytest

from conftest import fetch, send
from hub import Hub
from registry import LAYER, Registry, digest, tar
from test_credentials import secure_server
from test_interruptions import on_small_disk, ranged
from test_s3 import refuse

SENTENCES = json.loads(pathlib.Path(__file__).with_name("sentences.json").read_text())


def shown(uri):
    return uri.split("?")[0].split("#")[0]


def check(folder, name, uri, variables=None, **words):
    """Fetches, and compares the terminal and the kubelet's file with the sentence of this name."""
    log = folder / "termination-log"
    log.write_text("")
    done = fetch(uri, folder, variables, "--termination-log", str(log))
    assert done.returncode in (1, 2), done.stderr
    sentence = SENTENCES[name].format(uri=words.pop("shown", shown(uri)), **words)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: {sentence}"), (sentence, done.stderr)
    assert log.read_text() == last


def test_each_sentence_has_a_test():
    tested = pathlib.Path(__file__).read_text().split("def test_each_sentence")[-1]
    assert [name for name in SENTENCES if f'"{name}"' not in tested] == []


@pytest.mark.parametrize(
    "name, path, status",
    [("file not public", "/m.pt", 403), ("signature expired", "/m.pt?sig=hidden", 403), ("file missing", "/m.pt", 404)],
)
def test_files_of_a_web_server(serve, tmp_path, name, path, status):
    check(tmp_path, name, serve(lambda request: send(request, status)) + path)


@pytest.mark.parametrize(
    "name, status, code, headers",
    [
        ("access denied", 403, "AccessDenied", {}),
        ("unknown credentials", 403, "InvalidAccessKeyId", {}),
        ("expired token", 400, "ExpiredToken", {}),
        ("archived", 403, "InvalidObjectState", {}),
        ("region unknown", 400, "AuthorizationHeaderMalformed", {}),
        ("region wrong again", 301, "PermanentRedirect", {"x_amz_bucket_region": "eu-west-1"}),
    ],
)
def test_refusals_of_a_bucket(serve, aws, tmp_path, name, status, code, headers):
    aws["AWS_ENDPOINT_URL"] = serve(refuse(status, code, **headers))
    check(tmp_path, name, "s3://models/m", aws)


def test_a_private_bucket_without_credentials(serve, tmp_path):
    endpoint = serve(refuse(403, "AccessDenied"))
    # The machine of the test has no metadata service.
    variables = {"AWS_ENDPOINT_URL": endpoint, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"}
    check(tmp_path, "no credentials", "s3://models/m", variables)


@pytest.mark.parametrize("name, uri", [("bucket missing", "s3://nowhere/x"), ("object missing", "s3://models/no/model")])
def test_missing_buckets_and_objects(s3, aws, tmp_path, name, uri):
    check(tmp_path, name, uri, aws)


@pytest.mark.parametrize(
    "name, uri, gated",
    [
        ("gated model", "hf://org/net:main", True),
        ("model missing", "hf://org/none:main", False),
        ("revision missing", "hf://org/net:v9", False),
    ],
)
def test_models_of_the_hub(serve, tmp_path, name, uri, gated):
    endpoint = serve(Hub(gated=gated))
    check(tmp_path, name, uri, {"HF_ENDPOINT": endpoint}, endpoint=endpoint)


@pytest.mark.parametrize(
    "name, image",
    [
        ("image missing", "org/none:1"),
        ("image without model", "org/bare:1"),
        ("layer of zstd", "org/zstd:1"),
        ("link out of the model", "org/link:1"),
    ],
)
def test_images_of_a_registry(serve, tmp_path, name, image):
    registry = Registry()
    registry.push("org/bare:1", [registry.blob(tar({"etc/passwd": b"root"}), LAYER)])
    registry.push("org/zstd:1", [registry.blob(b"packed", f"{LAYER}+zstd")])
    registry.push("org/link:1", [registry.blob(tar({}, [("models/link", "/etc/passwd")]), LAYER)])
    host = serve(registry).removeprefix("http://")
    check(tmp_path, name, f"oci://{host}/{image}", host=host)


@pytest.mark.parametrize("uri", ["https://127.0.0.1:{port}/m.pt", "s3://models/m.pt"])
def test_an_authority_that_is_not_trusted(tmp_path, uri):
    _, port = secure_server(tmp_path, lambda request: send(request, 200, b"weights"))
    variables = {"AWS_ENDPOINT_URL": f"https://127.0.0.1:{port}", "awsAnonymousCredential": "1"}
    began = time.monotonic()
    check(tmp_path, "certificate not trusted", uri.format(port=port), variables)
    assert time.monotonic() - began < 15, "the request is not repeated"


def test_a_wrong_digest(serve, tmp_path):
    expected = "0" * 64
    url = serve(lambda request: send(request, 200, b"weights")) + f"/m.pt#sha256:{expected}"
    check(tmp_path, "wrong digest", url, digest=digest(b"weights").removeprefix("sha256:"), expected=expected)


def test_a_file_that_changes_all_the_time(serve, tmp_path):
    size, lock, versions = 9 << 20, threading.Lock(), iter(range(1000))

    def answer(request):
        with lock:
            version = next(versions)
        start, last = (int(part) for part in request.headers["range"].removeprefix("bytes=").split("-"))
        last = min(last, size - 1)
        headers = {"etag": f'"{version}"', "content-range": f"bytes {start}-{last}/{size}"}
        try:
            send(request, 206, bytes(last + 1 - start), headers)
        except OSError:
            pass

    check(tmp_path, "changed", serve(answer) + "/m.pt")


def packed(name, **attributes):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo(name)
        entry.size, entry.pax_headers = 1, attributes
        archive.addfile(entry, io.BytesIO(b"x"))
    return content.getvalue()


@pytest.mark.parametrize(
    "name, content",
    [
        ("traversal", packed("../escaped")),
        ("bomb of names", packed("m.pt", comment="x" * 300_000)),
        ("broken archive", packed("m.pt")[:40]),
    ],
    ids=["traversal", "bomb", "broken"],
)
def test_archives(serve, tmp_path, name, content):
    check(tmp_path, name, serve(lambda request: send(request, 200, content)) + "/m.tar.gz")


def test_a_file_that_is_too_large(serve, tmp_path):
    def answer(request):
        request.send_response(200)
        request.send_header("content-length", str((64 << 30) + 1))
        request.end_headers()
        request.close_connection = True

    check(tmp_path, "too large", serve(answer) + "/m.pt")


def test_more_than_a_hundred_thousand_objects(serve, aws, tmp_path):
    def answer(request):
        if "list-type" not in request.path:
            return refuse(404, "NoSuchKey")(request)
        page = int(request.path.partition("continuation-token=")[2].partition("&")[0] or 0)
        entry = "<Contents><Key>m/{}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        entries = "".join(entry.format(page * 25_000 + number) for number in range(25_000))
        more = f"<NextContinuationToken>{page + 1}</NextContinuationToken>"
        send(request, 200, f"<ListBucketResult>{entries}{more}</ListBucketResult>".encode())

    aws["AWS_ENDPOINT_URL"] = serve(answer)
    check(tmp_path, "too many objects", "s3://models/m", aws)


@pytest.mark.parametrize(
    "name, uri",
    [
        ("file share", "https://account.file.core.windows.net/share/m"),
        ("hdfs", "hdfs://host/m"),
        ("git", "git://host/m"),
        ("ms", "ms://org/m"),
    ],
)
def test_stores_that_are_refused_by_name(tmp_path, name, uri):
    check(tmp_path, name, uri)


def test_a_disk_that_is_too_small(serve, tmp_path):
    done = on_small_disk(tmp_path, f"{serve(ranged([0], rate=1 << 30))}/model.bin")
    assert SENTENCES["disk full"] in done.stderr and "are free" in done.stderr, done.stderr


def cut(request):
    request.send_response(200)
    request.send_header("content-length", "7")
    request.end_headers()
    request.wfile.write(b"wei")
    request.close_connection = True


def reset(request):
    cut(request)
    request.wfile.flush()
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()


@pytest.mark.parametrize(
    "first, sentence",
    [
        (cut, "the server closed the connection before the end of the file"),
        (reset, "the connection was reset during the download"),
        (lambda request: send(request, 429, headers={"retry-after": "1"}), "status 429"),
        (lambda request: send(request, 503, headers={"retry-after": "1"}), "status 503"),
    ],
)
def test_interruptions_are_named_and_survived(serve, tmp_path, first, sentence):
    answers = [first]

    def answer(request):
        answer = answers.pop() if answers else lambda request: send(request, 200, b"weights", {"etag": '"1"'})
        answer(request)

    uri = serve(answer) + "/m.pt"
    done = fetch(uri, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{uri} could not be downloaded: {sentence}; retrying\n" in done.stderr, done.stderr
