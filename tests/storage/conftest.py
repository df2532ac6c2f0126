"""`weir fetch`, the real program, against servers with the protocols of buckets."""

import http.server
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import boto3
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEIR = os.environ.get("WEIR", str(ROOT / "target/debug/weir"))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fetch(uri, folder, env=None, *flags):
    """Runs `weir fetch` with these variables only."""
    variables = {"HOME": str(folder), "PATH": os.environ["PATH"], **(env or {})}
    command = [WEIR, "fetch", uri, str(folder / "models"), *flags]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)


def files(folder):
    """Returns the fetched files by their paths."""
    root = folder / "models"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def wait_for(server, url):
    """Waits until a server that was just started answers at this address."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return urllib.request.urlopen(url).close()
        except OSError:
            assert time.monotonic() < deadline and server.poll() is None
            time.sleep(0.1)


def send(request, status, body=b"", headers=None):
    """Answers a request of `serve`; a HEAD gets no body."""
    request.send_response(status)
    for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
        request.send_header(name, value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


@pytest.fixture(scope="session")
def moto():
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    wait_for(server, f"{url}/moto-api/")
    yield url
    server.kill()
    server.wait()


@pytest.fixture(scope="session")
def s3(moto):
    keys = {"aws_access_key_id": "id", "aws_secret_access_key": "secret"}
    client = boto3.client("s3", endpoint_url=moto, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="models")
    return client


@pytest.fixture
def aws(moto):
    return {"AWS_ENDPOINT_URL": moto, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hidden-key"}


@pytest.fixture
def serve():
    """Starts HTTP servers whose requests a function answers."""
    servers = []

    def start(answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                answer(self)

            do_HEAD = do_POST = do_GET

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
