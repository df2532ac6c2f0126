#!/usr/bin/env python3
"""Measures a gateway with a hundred thousand API keys: its memory, the time until a new key is accepted and a revoked one is
refused, and the requests of another client while the keys are read again.

    benches/access_keys.py --weir PATH/weir --upstream PATH/upstream

Each key has a client of its own, an expiry and a scope. `weir key` makes and revokes keys in the same file. The figures are
printed; the exit code is 1 if memory grew by more than 40 MiB, if a revoked key was accepted for a second, or if a request
failed.
"""

import argparse
import contextlib
import http.client
import os
import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path

from harness import proxies
from harness.paths import BENCH
from harness.servers import free_ports

MIB = 1 << 20
MOST_MIB, PROMPT_S = 40, 1.0
# Seconds after which the allocator has returned unused memory to the system.
SETTLED = 30
RULES = 'rules:\n- clients: ["*"]\n  services: ["*"]\n'


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=Path, required=True, help="the program weir")
    parser.add_argument("--upstream", type=Path, required=True, help="the server behind the gateway")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5, help="number of keys that are made and revoked")
    return parser.parse_args()


def lines(count: int) -> str:
    """Returns keys as `weir key create` writes them."""
    line = '- {{"id":"{}","client":"client-{}","sha256":"{}","expires":"2999-01-31T00:00:00Z","scopes":["infer"]}}\n'
    return "keys:\n" + "".join(line.format(secrets.token_hex(8), number, secrets.token_hex(32)) for number in range(count))


class Running:
    def __init__(self, weir: Path, keys: Path, pid: int, port: int):
        self.weir, self.keys, self.pid, self.port = weir, keys, pid, port

    def key(self, *words: str) -> str:
        return subprocess.check_output([self.weir, "key", *words, "--file", self.keys], stderr=subprocess.DEVNULL, text=True).strip()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def status(self, connection: http.client.HTTPConnection, key: str) -> int:
        connection.request("POST", f"/v2/models/{proxies.MODEL}/infer", b"x", {"authorization": f"Bearer {key}"})
        response = connection.getresponse()
        response.read()
        return response.status

    def until(self, key: str, status: int) -> float:
        """Sends requests until the answer has this status, and returns the seconds."""
        begun = time.monotonic()
        with contextlib.closing(self.connection()) as connection:
            while self.status(connection, key) != status:
                if time.monotonic() - begun > 60:
                    raise SystemExit(f"no answer with {status} within a minute")
                time.sleep(0.002)
        return time.monotonic() - begun

    def mib(self, field: str) -> float:
        text = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(field)) / 1024

    def settled_mib(self) -> float:
        time.sleep(SETTLED)
        return self.mib("VmRSS")


class Load:
    """Requests of another client, one after the other, as a context manager."""

    def __init__(self, running: Running, key: str):
        self.running, self.key, self.times, self.failed, self.ends = running, key, [], 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        with contextlib.closing(self.running.connection()) as connection:
            while not self.ends.is_set():
                begun = time.monotonic()
                self.failed += self.running.status(connection, self.key) != 200
                self.times.append(time.monotonic() - begun)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def described(self) -> str:
        times = sorted(self.times)
        return f"{len(times)} requests, {self.failed} failed, p50 {1e3 * times[len(times) // 2]:.2f} ms, " \
               f"p99 {1e3 * times[int(0.99 * len(times))]:.2f} ms, longest {1e3 * times[-1]:.1f} ms"


@contextlib.contextmanager
def gateway(given: argparse.Namespace, folder: Path):
    keys, rules = folder / "keys.yaml", folder / "rules.yaml"
    rules.write_text(RULES)
    upstream = dict(zip(("upstream_http", "upstream_grpc"), free_ports(2)))
    (folder / "service.yaml").write_text(proxies.service(given.upstream, upstream))
    port, admin = free_ports(2)
    running = Running(given.weir, keys, 0, port)
    loaded = running.key("create", "--client", "load")
    command = [str(given.weir), "up", "-f", str(folder / "service.yaml"), "--port", str(port), "--admin-port", str(admin),
               "--state-dir", str(folder / "state"), "--access-file", str(keys), "--access-file", str(rules)]
    with proxies.started(command, folder / "weir.log", proxies.BOTH_CORES) as process:
        proxies.wait_ready("keys", port, process, folder / "weir.log")
        running.pid = process.pid
        running.until(loaded, 200)
        yield running, loaded


def add_keys(running: Running, count: int) -> None:
    """Adds keys to those of the file, at once."""
    new = running.keys.with_suffix(".new")
    own = running.keys.read_text().partition("keys:\n")[2]
    new.write_text(lines(count) + own)
    os.replace(new, running.keys)


def main() -> int:
    given = arguments()
    folder = proxies.fresh(BENCH / "access_keys")
    with gateway(given, folder) as (running, loaded):
        with Load(running, loaded) as load:
            time.sleep(5)
        print(f"one key:       {load.described()}")
        before = running.settled_mib()
        add_keys(running, given.keys)
        new = running.key("create", "--client", "new")
        running.until(new, 200)
        after, peak = running.settled_mib(), running.mib("VmHWM")
        print(f"{given.keys} keys in {running.keys.stat().st_size / MIB:.1f} MiB: resident {before:.1f} -> {after:.1f} MiB, at most {peak:.1f} MiB")
        accepted, refused = [], []
        with Load(running, loaded) as load:
            for _ in range(given.rounds):
                key = running.key("create", "--client", "other")
                accepted.append(running.until(key, 200))
                running.key("revoke", key)
                refused.append(running.until(key, 401))
        print(f"meanwhile:     {load.described()}")
        print(f"a new key is accepted after {max(accepted):.2f} s at most, a revoked one refused after {max(refused):.2f} s")
    is_kept = after - before <= MOST_MIB and max(refused) < PROMPT_S and load.failed == 0
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
