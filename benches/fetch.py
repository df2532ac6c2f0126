#!/usr/bin/env python3
"""Measures `weir fetch` on this machine: the bytes that a server sends while the fetch is killed each second, the memory
for a large model, a hundred thousand objects, and the rate beside the tools of the ecosystems, which take turns.

The server serves a sparse file with sendfile, so that it costs little: S3's protocol without signatures, and a Hub's.
Tools that are not installed are left out. Writes benches/results/fetch.json.
"""

import argparse
import http.server
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlparse

from harness.record import machine, output, written

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benches" / "results" / "fetch.json"
DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
COMMIT = "a" * 40
GIGABYTE = 1_000_000_000


class Source(http.server.ThreadingHTTPServer):
    """A server of one large object, and of many small ones."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, size, rate=None, objects=0):
        super().__init__(("127.0.0.1", 0), Answer)
        self.file = tempfile.TemporaryFile()
        self.file.truncate(size)
        self.size, self.rate, self.objects = size, rate, objects
        self.sent, self.lock, self.due = 0, threading.Lock(), time.monotonic()
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        """Ignores errors of connections that killed programs leave."""

    def count(self, sent):
        """Counts sent bytes, and waits so that all streams together have the rate."""
        with self.lock:
            self.sent += sent
            if self.rate:
                self.due = max(self.due, time.monotonic() - 0.1) + sent / self.rate
            left = self.due - time.monotonic()
        if self.rate and left > 0:
            time.sleep(left)


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A head and a small body are two writes; the second would wait 40 ms for the acknowledgement of the first.
    disable_nagle_algorithm = True

    def do_GET(self):
        url = urlparse(self.path)
        query, path = parse_qs(url.query), unquote(url.path)
        if "list-type" in query:
            return self.list(query)
        if path.startswith("/api/models/"):
            return self.hub(path)
        if path.startswith("/models/many/"):
            return self.whole(b"x" * 100)
        if path.rstrip("/") in ("/models", "/models/many"):
            return self.whole(b"<Error><Code>NoSuchKey</Code></Error>", 404)
        return self.range()

    do_HEAD = do_GET

    def log_message(self, *_):
        pass

    def whole(self, body, status=200):
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), "etag": '"1"', "last-modified": DATE}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def hub(self, path):
        if "/tree/" in path:
            entry = {"type": "file", "path": "model.bin", "size": self.server.size, "oid": "b" * 40}
            return self.whole(json.dumps([entry]).encode())
        info = {"id": "org/net", "sha": COMMIT, "siblings": [{"rfilename": "model.bin"}], "tags": [], "private": False}
        return self.whole(json.dumps(info).encode())

    def list(self, query):
        start = int(query.get("continuation-token", ["0"])[0])
        end = min(start + 1000, self.server.objects)
        entry = (
            "<Contents><Key>many/{0}/{1}</Key><Size>100</Size><ETag>&quot;1&quot;</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        )
        entries = "".join(entry.format(number // 1000, number) for number in range(start, end))
        is_last = end == self.server.objects
        more = "" if is_last else f"<NextContinuationToken>{end}</NextContinuationToken>"
        truncated = f"<IsTruncated>{str(not is_last).lower()}</IsTruncated>"
        self.whole(f"<ListBucketResult>{entries}{truncated}{more}</ListBucketResult>".encode())

    def range(self):
        size = self.server.size
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range") or "")
        start, end = (int(found[1]), min(int(found[2] or size - 1), size - 1) + 1) if found else (0, size)
        self.send_response(206 if found else 200)
        headers = {"content-length": str(end - start), "etag": '"1"', "last-modified": DATE, "accept-ranges": "bytes"}
        headers |= {"content-range": f"bytes {start}-{end - 1}/{size}"} if found else {}
        headers |= {"x-repo-commit": COMMIT} if "/resolve/" in self.path else {}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        piece = 1 << (18 if self.server.rate else 24)
        while self.command == "GET" and start < end:
            try:
                sent = os.sendfile(self.connection.fileno(), self.server.file.fileno(), start, min(piece, end - start))
            except OSError:
                self.close_connection = True
                return
            start += sent
            self.server.count(sent)


def environment(source, folder):
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    hub = {"HF_ENDPOINT": source.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return {"HOME": str(folder), "PATH": os.environ["PATH"], "AWS_ENDPOINT_URL": source.url, **keys, **hub}


def run(command, source, folder):
    """Returns the seconds and the peak memory in MiB of a program."""
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment(source, folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{command[0]} failed: {said.decode()[-500:]}")
    return time.monotonic() - began, used.ru_maxrss / 1024


def killed(weir, size, rate):
    """Kills the fetch each second until it ends, and returns how many bytes the server sent for each of the model's."""
    source, kills = Source(size, rate), 0
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        command = [*weir, f"{source.url}/model.bin", f"{folder}/model"]
        while True:
            process = subprocess.Popen(command, env=environment(source, folder), stderr=subprocess.DEVNULL)
            try:
                assert process.wait(1) == 0
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                # The fetch is complete: the killed program had moved the files and removed its journal.
                if Path(folder, "model/model.bin").exists() and not Path(folder, "model/.weir-fetch").exists():
                    break
        whole = Path(folder, "model/model.bin").stat()
        # A byte that was never written would leave a hole in the file, which then has fewer blocks than bytes.
        assert whole.st_size == size and whole.st_blocks * 512 >= size, whole
    return {"bytes": size, "rate": rate, "kills": kills, "sent_over_size": source.sent / size}


def large(weir, size):
    source = Source(size)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        seconds, memory = run([*weir, f"{source.url}/model.bin", f"{folder}/model"], source, folder)
    return {"bytes": size, "seconds": seconds, "peak_mib": memory}


def many(weir, objects):
    source = Source(0, objects=objects)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        seconds, memory = run([*weir, "s3://models/many", f"{folder}/model"], source, folder)
    return {"objects": objects, "seconds": seconds, "peak_mib": memory}


def rates(weir, size, rounds):
    """Downloads the same model with each tool in turns, and returns the medians in MB/s."""
    source = Source(size)
    uri = "s3://models/model.bin"
    tools = {
        "weir fetch s3://": [*weir, uri, "{folder}/model"],
        "aws s3 cp": ["aws", "s3", "cp", "--no-progress", uri, "{folder}/model.bin"],
        "s5cmd cp": ["s5cmd", "cp", uri, "{folder}/model.bin"],
        "weir fetch hf://": [*weir, "hf://org/net", "{folder}/model"],
        "hf download": ["hf", "download", "org/net", "--local-dir", "{folder}/model"],
        "weir fetch http://": [*weir, f"{source.url}/model.bin", "{folder}/model"],
        "curl": ["curl", "-s", "-o", "{folder}/model.bin", f"{source.url}/model.bin"],
    }
    seconds = {name: [] for name, command in tools.items() if shutil.which(command[0])}
    for _ in range(rounds):
        for name in seconds:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                command = [word.replace("{folder}", folder) for word in tools[name]]
                seconds[name].append(run(command, source, folder)[0])
    return [
        {"tool": name, "mb_per_s": size / 1e6 / statistics.median(taken), "rounds": len(taken)}
        for name, taken in seconds.items()
    ]


def main():
    weir = [*arguments.program, "fetch"]
    before = os.getloadavg()[0]
    result = {
        "machine": machine(),
        "commit": output("git", "rev-parse", "--short=8", "HEAD"),
        "date": time.strftime("%Y-%m-%d"),
        "load_average_before": before,
    }
    measure = {
        "killed_each_second": lambda: [killed(weir, 2 * GIGABYTE, rate) for rate in (150_000_000, None)],
        "large": lambda: large(weir, 10 * GIGABYTE),
        "many": lambda: many(weir, 100_000),
        "rates": lambda: rates(weir, arguments.size, arguments.rounds),
    }
    result |= {name: measured() for name, measured in measure.items() if name in (arguments.only or measure)}
    result["load_average_after"] = os.getloadavg()[0]
    text = written(result)
    print(text)
    if not arguments.only:
        RESULTS.write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", nargs="+", default=[str(ROOT / "target/release/weir")])
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="10 GB are written there")
    parser.add_argument("--size", type=int, default=2 * GIGABYTE)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", help="measure only this, repeatable, and write no results")
    arguments = parser.parse_args()
    main()
