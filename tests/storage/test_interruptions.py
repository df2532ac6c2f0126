"""Downloads that are killed, and disks that are full."""

import io
import pathlib
import re
import shutil
import subprocess
import tarfile
import threading
import time

import pytest

from conftest import WEIR, fetch, files

SIZE = 40 << 20
CONTENT = bytes(range(256)) * (SIZE // 256)


def ranged(sent, rate):
    """Answers with the range, at `rate` bytes per second and request, and adds the sent bytes to `sent`."""
    lock = threading.Lock()

    def answer(request):
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        start, last = map(int, found.groups()) if found else (0, SIZE - 1)
        last = min(last, SIZE - 1)
        request.send_response(206 if found else 200)
        request.send_header("etag", '"1"')
        request.send_header("content-range", f"bytes {start}-{last}/{SIZE}")
        request.send_header("content-length", str(last + 1 - start))
        request.end_headers()
        for at in range(start, last + 1, 65536):
            piece = CONTENT[at : min(at + 65536, last + 1)]
            try:
                request.wfile.write(piece)
            except OSError:
                return
            with lock:
                sent[0] += len(piece)
            time.sleep(len(piece) / rate)

    return answer


def test_a_killed_download_resumes_at_the_byte(serve, tmp_path):
    sent = [0]
    url = serve(ranged(sent, rate=4 << 20))
    command = [WEIR, "fetch", f"{url}/model.bin", str(tmp_path / "models")]
    for part in [1, 2, 3]:
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while sent[0] < part * SIZE // 4:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
    last = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120)
    assert last.returncode == 0 and "retrying" not in last.stderr, last.stderr
    assert files(tmp_path) == {"model.bin": CONTENT}
    assert sent[0] <= 1.1 * SIZE, sent


def test_thousands_of_objects_take_little_memory(serve, aws, tmp_path):
    """benches/fetch.py fetches a hundred thousand."""
    objects = 2000

    def answer(request):
        body = b"weights"
        if "list-type" in request.path:
            page = int(request.path.partition("continuation-token=")[2].partition("&")[0] or 0)
            entry = '<Contents><Key>m/{0}/{1}</Key><Size>7</Size><ETag>"1"</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>'
            entries = "".join(entry.format(page, number) for number in range(1000))
            more = f"<NextContinuationToken>{page + 1}</NextContinuationToken>" if page == 0 else ""
            body = f"<ListBucketResult>{entries}{more}</ListBucketResult>".encode()
        is_missing = request.path == "/models/m"
        request.send_response(404 if is_missing else 200)
        headers = {"content-length": "0" if is_missing else str(len(body)), "etag": '"1"'}
        for name, value in (headers | {"last-modified": "Wed, 21 Oct 2015 07:28:00 GMT"}).items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "GET" and not is_missing:
            request.wfile.write(body)

    aws["AWS_ENDPOINT_URL"] = serve(answer)
    command = [WEIR, "fetch", "s3://models/m", str(tmp_path / "models")]
    process, peak = subprocess.Popen(command, env=aws), 0
    while process.poll() is None:
        memory = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process.pid}/status").read_text())
        peak = int(memory[1]) if memory else peak
        time.sleep(0.02)
    assert process.returncode == 0
    found = files(tmp_path)
    assert len(found) == objects and set(found.values()) == {b"weights"}
    assert 0 < peak <= 96 << 10


def on_small_disk(folder, uri):
    """Runs `weir fetch` into a file system of 4 MiB."""
    folder = folder / "small"
    folder.mkdir()
    script = f"mount -t tmpfs -o size=4m none {folder} && exec {WEIR} fetch {uri} {folder}/models"
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("this system has no user namespaces")
    return subprocess.run([*namespace, "sh", "-c", script], capture_output=True, text=True, timeout=60)


def test_a_full_disk_is_found_before_the_download(serve, tmp_path):
    done = on_small_disk(tmp_path, f"{serve(ranged([0], rate=1 << 30))}/model.bin")
    assert done.returncode == 1
    assert "has no room for the model of 41.9 MB; free some space, or use a larger volume" in done.stderr, done.stderr


def test_a_disk_that_fills_while_an_archive_is_unpacked_is_named(serve, tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("model.bin")
        entry.size = SIZE
        archive.addfile(entry, io.BytesIO(bytes(SIZE)))

    def answer(request):
        request.send_response(200)
        request.send_header("content-length", str(len(packed.getvalue())))
        request.end_headers()
        request.wfile.write(packed.getvalue())

    done = on_small_disk(tmp_path, f"{serve(answer)}/model.tgz")
    assert done.returncode == 1
    assert "has no room for the model; free some space, or use a larger volume" in done.stderr, done.stderr


def test_sizes_in_the_log_of_a_pod(serve, tmp_path):
    url = serve(ranged([0], rate=700_000))
    done = fetch(f"{url}/model.bin", tmp_path)
    assert done.returncode == 0
    assert re.search(r"^fetched [0-9.]+ of 41.9 MB, [0-9.]+ MB/s, \d+ s left$", done.stderr, re.M), done.stderr
