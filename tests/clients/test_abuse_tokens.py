"""Attacks on access control itself: guessed keys, hostile tokens and issuers, and clients with thousands of names.

The option `--faults 10000` sends as many requests as a long run does; without it, there are a thousand.
"""

import json
import random
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import gateway
import wire
from issuer import Issuers
from server import GOOD, Server, wait_until
from wire import HOST

# Bytes by which memory may grow: more than noise, and less than a KiB for each of ten thousand names would take.
NOISE = 8 << 20
# Series of refusals by client that docs/access.md promises, and some for those without a client.
SERIES = 1024 + 8
PATH = "/v2/models/add_sub"


class Guarded:
    """A server behind a gateway that accepts keys, and tokens of three issuers."""

    def __init__(self, folder):
        self.issuers = Issuers()
        keys, rules = folder / "keys.yaml", folder / "rules.yaml"
        allowed = [
            {"clients": ["user"], "services": ["*"]},
            {"clients": ["good:*"], "services": ["*"], "operations": ["metadata"]},
        ]
        rules.write_text(json.dumps({"rules": allowed, "issuers": self.issuers.settings()}))
        command = [str(gateway.BINARY), "key", "create", "--file", str(keys), "--client", "user"]
        self.key = subprocess.check_output(command, text=True).strip()
        self.server = Server(folder / "log", [GOOD])
        gateway.use_gateway(self.server)
        # The port of the gateway's metrics; the server's own are those of the runtime.
        self.admin = self.server.command[self.server.command.index("--admin-port") + 1]
        self.server.command += ["--access-file", str(keys), "--access-file", str(rules)]
        self.server.start()

    def good(self) -> None:
        reply = self.server.infer("add_sub", wire.add_sub(), {"x-api-key": self.key})
        assert reply.outputs()["OUTPUT0"]["data"] == list(range(1, 17))

    def status(self, credential: str, path: str = PATH) -> int:
        return self.server.call("GET", path, headers={"authorization": f"Bearer {credential}"}).status

    def memory(self) -> int:
        """Returns the resident bytes of the gateway."""
        pages = open(f"/proc/{self.server.process.pid}/statm").read().split()[1]
        return int(pages) * 4096

    def metrics(self) -> str:
        return wire.call(int(self.admin), "GET", "/metrics").body.decode()

    def settles(self, before: int) -> None:
        wait_until(lambda: self.memory() <= before + NOISE, 40, f"the memory of before, {before}")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    running = Guarded(tmp_path_factory.mktemp("guarded"))
    wait_until(lambda: running.status(running.issuers.token()) == 200, 20, "the issuer's keys")
    for _ in range(100):
        running.good()
    yield running
    running.server.stop()
    running.issuers.stop()


@pytest.fixture
def faults(pytestconfig):
    return pytestconfig.getoption("--faults")


def head(credential: str, method: str = "GET", path: str = PATH) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {credential}\r\n\r\n".encode()


def pipelined(guarded, heads: list) -> list:
    """Sends requests on one connection without waiting for answers, and returns the statuses."""
    with socket.create_connection(("127.0.0.1", guarded.server.http_port), timeout=60) as connection:
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(connection.sendall, b"".join(heads))
            received, statuses = b"", []
            while len(statuses) < len(heads):
                piece = connection.recv(65536)
                assert piece, f"closed after {len(statuses)} answers"
                received += piece
                *whole, received = received.split(b"HTTP/1.1 ")
                statuses += [int(answer[:3]) for answer in whole if answer]
                if len(statuses) == len(heads) - 1 and received[:3].isdigit():
                    statuses.append(int(received[:3]))
            sent.result()
    return statuses


def in_parallel(guarded, heads: list) -> set:
    with ThreadPoolExecutor(8) as pool:
        parts = [heads[start::8] for start in range(8)]
        return {status for statuses in pool.map(lambda part: pipelined(guarded, part), parts) for status in statuses}


def test_guessed_keys_are_refused_and_take_no_memory(guarded, faults):
    rng, identifier = random.Random(35), guarded.key.split("_")[1]
    in_parallel(guarded, [head("weir_0")] * 100)
    before = guarded.memory()
    guesses = [f"weir_{rng.choice([identifier, f'{rng.getrandbits(64):016x}'])}_{rng.getrandbits(256):064x}" for _ in range(10 * faults)]
    assert in_parallel(guarded, [head(guess) for guess in guesses]) == {401}
    guarded.good()
    guarded.settles(before)


def test_tokens_with_huge_heads_are_refused(guarded, faults):
    before = guarded.memory()
    kid = "k" * 5000
    tokens = [guarded.issuers.token(kid=kid), guarded.issuers.token(kid="k" * 40_000), guarded.issuers.token(x5c=["A" * 5000] * 8),
              "e30." * 2000 + "x", "a" * 60_000]
    for token in tokens:
        # An unknown key may be a new one: the gateway asks the issuer first, at most once in 5 s.
        assert guarded.status(token) == 401, token[:40]
    heads = [head(token) for token in tokens[1:]] * (faults // 100)
    assert in_parallel(guarded, heads) == {401}
    guarded.good()
    guarded.settles(before)


def test_an_issuer_that_is_slow_or_huge_delays_its_own_tokens_alone(guarded):
    """A token of an issuer without keys waits for the fetch that goes on, and is then refused as one that cannot be checked."""
    before = guarded.memory()
    with ThreadPoolExecutor(32) as pool:
        waiting = [pool.submit(guarded.status, guarded.issuers.token(kind=kind)) for kind in ("slow", "huge") for _ in range(16)]
        until = time.monotonic() + 5
        while time.monotonic() < until:
            begun = time.monotonic()
            guarded.good()
            assert guarded.status(guarded.issuers.token()) == 200
            assert time.monotonic() - begun < 2
        assert {status.result() for status in waiting} == {503}
    # A response has at most 256 KiB; sockets buffer some of the rest.
    assert 0 < guarded.issuers.longest < 32 << 20
    guarded.settles(before)
    assert 'weir_gateway_access_key_set_usable{issuer="https://slow.example"} 0' in guarded.metrics()


def test_thousands_of_names_flood_neither_metrics_nor_memory(guarded, faults):
    """Each name is a valid client, which may read metadata and no more. Others keep their lines in the log."""
    names = max(faults, 3000)
    tokens = [guarded.issuers.token(f"n{number}") for number in range(names)]
    assert in_parallel(guarded, [head(token) for token in tokens]) == {200}
    before = guarded.memory()
    heads = [head(token, path=f"{PATH}/infer") for token in tokens]
    assert in_parallel(guarded, heads) == {403}
    lines = [line for line in guarded.metrics().splitlines() if line.startswith("weir_gateway_access_refused_total{")]
    assert 1000 < len(lines) <= SERIES, len(lines)
    assert any('client="(other)"' in line for line in lines)
    guarded.good()
    guarded.settles(before)
    written = guarded.server.log.read_text().count("a request was refused")
    assert in_parallel(guarded, heads[:100] * 30) == {403}
    # Ten lines of each name at once, and one a second.
    assert guarded.server.log.read_text().count("a request was refused") - written < 100 * 60
