#!/usr/bin/env python3
"""Measures what access control costs a gateway for each request: none, an API key, and a token that was verified before.

    benches/access.py --weir PATH/weir --upstream PATH/upstream                   processor time, in turns
    benches/access.py --weir PATH/weir --upstream PATH/upstream --instructions    instructions, by valgrind's callgrind

Each way of access has a gateway of its own in front of the same kind of upstream. All of them are up at the same time,
and each round measures all of them, in another order. A request has a body of 1 KiB, over HTTP/1.1. Gateways run on
core 0; this program and the upstreams run on core 1. The figures are printed.
"""

import argparse
import base64
import contextlib
import http.server
import json
import os
import re
import selectors
import socket
import statistics
import subprocess
import threading
import time
from pathlib import Path

from harness import proxies
from harness.paths import BENCH
from harness.rows import rotated
from harness.servers import CLIENT_CORE, SERVER_CORE, free_ports

WAYS = ("off", "key", "token")
CLIENT = "system-of-tests"
BODY = bytes(1024)
# Requests before a measurement, in which connections are opened and the token is verified.
WARM_UP = 200

RULES = """
rules:
- clients: ["*"]
  services: ["*"]
issuers:
- issuer: {issuer}
  audiences: [weir]
  clientPrefix: "sso:"
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=Path, required=True, help="the program weir")
    parser.add_argument("--upstream", type=Path, required=True, help="the server behind the gateways")
    parser.add_argument("--rounds", type=int, default=7, help="number of measurements of each way")
    parser.add_argument("--requests", type=int, default=20_000, help="requests of one measurement")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--instructions", action="store_true", help="count instructions in place of processor time")
    return parser.parse_args()


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*words: str, data: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *words], input=data, capture_output=True, check=True).stdout


class Issuer:
    """An OpenID issuer on this machine with one Ed25519 key."""

    def __init__(self, folder: Path):
        self.key = folder / "issuer.pem"
        openssl("genpkey", "-algorithm", "ed25519", "-out", str(self.key))
        # The public key is the last 32 bytes of its DER form.
        public = openssl("pkey", "-in", str(self.key), "-pubout", "-outform", "DER")[-32:]
        keys = {"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": encoded(public)}]}
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                found = keys if self.path == "/keys" else {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
                body = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self) -> str:
        """Returns a token of about 600 bytes, as issuers with some groups give."""
        header = {"alg": "EdDSA", "kid": "one", "typ": "JWT"}
        claims = {"iss": self.url, "aud": "weir", "sub": CLIENT, "exp": int(time.time()) + 86_400,
                  "groups": [f"group-of-tests-{number}" for number in range(12)]}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
        path = self.key.with_suffix(".txt")
        path.write_text(signed)
        signature = openssl("pkeyutl", "-sign", "-inkey", str(self.key), "-rawin", "-in", str(path))
        return f"{signed}.{encoded(signature)}"


def created_key(weir: Path, file: Path) -> str:
    done = subprocess.run([weir, "key", "create", "--file", file, "--client", CLIENT], capture_output=True, check=True, text=True)
    return re.search(r"weir_[0-9a-f]{16}_[0-9a-f]{64}", done.stdout + done.stderr)[0]


class Gateway:
    """A running gateway, and the bytes of a request through it."""

    def __init__(self, pid: int, port: int, credential: str):
        self.pid, self.port = pid, port
        line = f"authorization: Bearer {credential}\r\n" if credential else ""
        head = (f"POST /v2/models/{proxies.MODEL}/infer HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{line}"
                f"content-type: application/octet-stream\r\ncontent-length: {len(BODY)}\r\n\r\n")
        self.request = head.encode() + BODY

    def send(self, requests: int, connections: int) -> None:
        """Sends requests, one at a time on each connection."""
        open_, selector = [], selectors.DefaultSelector()
        left = requests
        for _ in range(connections):
            connection = socket.create_connection(("127.0.0.1", self.port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, bytearray())
            open_.append(connection)
            connection.sendall(self.request)
        while left > 0:
            for ready, _ in selector.select():
                ready.data.extend(ready.fileobj.recv(1 << 16))
                if is_complete(ready.data):
                    left -= 1
                    ready.data.clear()
                    ready.fileobj.sendall(self.request)
        for connection in open_:
            connection.close()

    def processor_s(self) -> float:
        """Returns the processor time of all threads, in seconds. The scheduler counts it in nanoseconds."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def is_complete(response: bytearray) -> bool:
    head, end, body = response.partition(b"\r\n\r\n")
    if not end:
        return False
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"a request failed: {bytes(response[:500])}")
    return len(body) >= int(re.search(rb"content-length: (\d+)", head)[1])


@contextlib.contextmanager
def gateway(way: str, given: argparse.Namespace, folder: Path, issuer: Issuer):
    proxies.fresh(folder)
    credential, access = "", []
    if way != "off":
        (folder / "rules.yaml").write_text(RULES.format(issuer=issuer.url))
        key = created_key(given.weir, folder / "keys.yaml")
        credential = key if way == "key" else issuer.token()
        access = ["--access-file", str(folder / "keys.yaml"), "--access-file", str(folder / "rules.yaml")]
    upstream = dict(zip(("upstream_http", "upstream_grpc"), free_ports(2)))
    (folder / "service.yaml").write_text(proxies.service(given.upstream, upstream))
    port, admin = free_ports(2)
    counter = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out"] if given.instructions else []
    command = [*counter, str(given.weir), "up", "-f", str(folder / "service.yaml"), "--port", str(port),
               "--admin-port", str(admin), "--state-dir", str(folder / "state"), *access]
    with proxies.started(command, folder / "weir.log", str(SERVER_CORE)) as process:
        proxies.wait_ready(way, port, process, folder / "weir.log")
        one = Gateway(process.pid, port, credential)
        wait_served(one)
        one.send(WARM_UP, given.connections)
        yield one


def wait_served(one: Gateway) -> None:
    """Waits until the issuer's keys were fetched and requests are answered."""
    for attempt in range(100):
        try:
            one.send(1, 1)
            return
        except SystemExit:
            if attempt == 99:
                raise
            time.sleep(0.1)


def processor_us(one: Gateway, given: argparse.Namespace) -> float:
    before = one.processor_s()
    one.send(given.requests, given.connections)
    return (one.processor_s() - before) / given.requests * 1e6


def instructions(one: Gateway, given: argparse.Namespace, folder: Path) -> float:
    """Returns the thousands of instructions per request, without those of an idle gateway in the same time."""
    busy_s, busy = counted(one, folder, lambda: one.send(given.requests, given.connections))
    idle_s, idle = counted(one, folder, lambda: time.sleep(3))
    return (busy - idle / idle_s * busy_s) / given.requests / 1e3


def counted(one: Gateway, folder: Path, act) -> tuple:
    subprocess.run(["callgrind_control", "-z", str(one.pid)], check=True, stdout=subprocess.DEVNULL)
    begun = time.monotonic()
    act()
    took = time.monotonic() - begun
    subprocess.run(["callgrind_control", "-d", str(one.pid)], check=True, stdout=subprocess.DEVNULL)
    newest = max(folder.glob("callgrind.out*"), key=lambda path: (path.stat().st_mtime_ns, len(path.name), path.name))
    return took, int(re.search(r"^(?:totals|summary): (\d+)", newest.read_text(), re.MULTILINE)[1])


def main() -> None:
    given = arguments()
    os.sched_setaffinity(0, {CLIENT_CORE})
    folder = proxies.fresh(BENCH / "access")
    issuer = Issuer(folder)
    found = {way: [] for way in WAYS}
    with contextlib.ExitStack() as stack:
        running = {way: stack.enter_context(gateway(way, given, folder / way, issuer)) for way in WAYS}
        for number in range(given.rounds):
            for way in rotated(list(WAYS), number):
                one = running[way]
                value = instructions(one, given, folder / way) if given.instructions else processor_us(one, given)
                found[way].append(value)
    unit = "thousand instructions" if given.instructions else "us of processor time"
    for way, values in found.items():
        more = statistics.median(value - off for value, off in zip(values, found["off"]))
        print(f"{way:6} {statistics.median(values):8.2f} {unit} ({min(values):.2f}-{max(values):.2f}), {more:+.2f} over off")


if __name__ == "__main__":
    main()
