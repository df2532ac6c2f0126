"""A bucket on the node: a real S3 server (moto) behind a proxy that knows which key may read which bucket, counts the bytes
of objects, and sends them as slowly as a test wants."""

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3

from weir import wait_until

KEY = re.compile(r"Credential=([^/]+)/")
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
CHUNK = 1 << 16
# The port is the same in each run, so that the Secrets of an earlier run lead here.
PORT = 9300


class Server(ThreadingHTTPServer):
    # Twenty pods that start at once open sixteen connections each.
    request_queue_size = 512
    daemon_threads = True

    def handle_error(self, *_):
        """Ignores errors: pods are deleted while they download."""


class Bucket:
    """The service at `url`. `readers` has the keys that may read each bucket, `sent` the bytes of objects sent to each key."""

    def __init__(self, address):
        self.readers, self.sent, self.rate = {}, Counter(), None
        self.lock = threading.Lock()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.moto = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("moto", 60, self.is_up)
        keys = {"aws_access_key_id": "owner", "aws_secret_access_key": "secret"}
        self.s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", region_name="us-east-1", **keys)
        self.server = Server((address, PORT), self.handler())
        self.url = f"http://{address}:{PORT}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.moto.kill()
        self.moto.wait()

    def is_up(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def put(self, bucket, readers, files):
        """Uploads files by their keys. Returns their bytes."""
        self.s3.create_bucket(Bucket=bucket)
        self.readers[bucket] = set(readers)
        for key, content in files.items():
            self.s3.put_object(Bucket=bucket, Key=key, Body=content)
        return sum(map(len, files.values()))

    def taken(self):
        """Returns the bytes that each key received since the last call."""
        with self.lock:
            sent, self.sent = self.sent, Counter()
        return dict(sent)

    def add(self, key, count):
        with self.lock:
            self.sent[key] += count
        if self.rate:
            time.sleep(count / self.rate)

    def handler(bucket):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                key = (KEY.search(self.headers.get("Authorization", "")) or ["", "nobody"])[1]
                name, _, path = self.path.split("?")[0].lstrip("/").partition("/")
                if key not in bucket.readers.get(name, ()):
                    self.refuse()
                else:
                    self.forward(key if path else None)

            do_HEAD = do_GET

            def refuse(self):
                self.send_response(403)
                self.send_header("Content-Length", str(len(DENIED)))
                self.end_headers()
                self.wfile.write(DENIED if self.command == "GET" else b"")

            def forward(self, key):
                upstream = http.client.HTTPConnection("127.0.0.1", bucket.port, timeout=60)
                upstream.request(self.command, self.path, headers=dict(self.headers))
                answer = upstream.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "date", "server"):
                        self.send_header(name, value)
                self.end_headers()
                while chunk := answer.read(CHUNK):
                    self.wfile.write(chunk)
                    if key:
                        bucket.add(key, len(chunk))
                upstream.close()

            def log_message(self, *_):
                """Logs nothing."""

        return Handler


def secret(name, namespace, key, url):
    """Returns a Secret with the credentials `key` and the ServiceAccount that names it."""
    data = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1"}
    metadata = {"name": name, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "secrets": [{"name": name}]},
    ]


def many(items):
    """Returns a List for `kubectl apply`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
