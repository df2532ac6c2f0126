"""Downloads that are killed, and disks that are full."""

import io
import os
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
