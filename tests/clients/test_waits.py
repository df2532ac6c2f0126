"""Clients that hold a connection without using it: each wait for such a client ends, and other clients are served
meanwhile."""

import select
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import crowd
import gateway
import wire
from server import GOOD, Server

# The limit of 2 s, a quarter more, and time for a busy machine. Before there were limits, most of these connections never
# ended.
END_TIMEOUT = 15.0
# The limit of the admin ports is 30 s, whatever the flags.
ADMIN_END_TIMEOUT = 60.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
PING = b"\0\0\x08\x06\0\0\0\0\0pingpong"
INFER = b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: models.tests\r\n"

# For each kind, the bytes sent at once, and the bytes sent again and again.
HOSTILE = {
    "silent": (b"", b""),
    "half a preface": (PREFACE[:10], b""),
    "a preface": (PREFACE, b""),
    "pings": (PREFACE, PING),
    "half a head": (INFER, b""),
    "a head byte by byte": (INFER + b"x-a: ", b"a"),
}
BODIES = {
    "a body byte by byte": (INFER + b"Content-Length: 100000\r\n\r\n", b"1"),
    "chunks byte by byte": (INFER + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n1\r\n"),
}


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    options = ["--http-header-timeout-secs", "2", "--http-body-timeout-secs", "2", "--max-connections", "400"]
    running = Server(tmp_path_factory.mktemp("waits") / "log", [GOOD], options).start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def impatient_gateway(tmp_path_factory):
    """Starts a gateway with the same limits, and its admin port."""
    running = Server(tmp_path_factory.mktemp("gateway") / "log", [GOOD])
    admin_port = running.grpc_port
    gateway.use_gateway(running)
    running.command += ["--http-header-timeout-secs", "2", "--http-body-timeout-secs", "2"]
    running.start()
    yield running, admin_port
    running.stop()


def received_until_the_end(port: int, begin: bytes, drip: bytes, timeout: float = END_TIMEOUT) -> bytes:
    """Returns the bytes that a client received until its connection ended."""
    received, end = b"", time.monotonic() + timeout
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(begin)
        while time.monotonic() < end:
            readable, _, _ = select.select([connection], [], [], 0.1)
            try:
                if readable:
                    piece = connection.recv(65536)
                    if not piece:
                        return received
                    received += piece
                if drip:
                    connection.sendall(drip)
            except OSError:
                return received
    raise AssertionError(f"still held after {timeout} s")


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("port", ["http_port", "grpc_port"])
def test_connections_without_a_request_end(impatient, port, kind):
    received_until_the_end(getattr(impatient, port), *HOSTILE[kind])


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_that_crawl_are_refused(impatient, kind):
    assert received_until_the_end(impatient.http_port, *BODIES[kind]).startswith(b"HTTP/1.1 408 ")


def test_the_gateway_has_the_limits_of_its_flags(impatient_gateway):
    port = impatient_gateway[0].http_port
    received_until_the_end(port, *HOSTILE["half a head"])
    assert received_until_the_end(port, *BODIES["a body byte by byte"]).startswith(b"HTTP/1.1 408 ")


def test_connections_without_a_request_end_at_the_admin_ports(impatient, impatient_gateway):
    ports = [impatient.metrics_port, impatient_gateway[1]]
    kinds = [(port, *kind) for port in ports for kind in HOSTILE.values()]
    with ThreadPoolExecutor(len(kinds)) as pool:
        held = [pool.submit(received_until_the_end, *kind, ADMIN_END_TIMEOUT) for kind in kinds]
        for port in ports:
            assert wire.call(port, "GET", "/health").status == 200
        for connection in held:
            connection.result()


@pytest.mark.parametrize("call", ["ModelInfer", "ModelStreamInfer"])
def test_messages_that_crawl_are_refused(impatient, call):
    """The client sends single bytes of a message of 100 KB. Without a minimum rate of messages, such a call would never
    end."""
    end = time.monotonic() + END_TIMEOUT
    with socket.create_connection(("127.0.0.1", impatient.grpc_port)) as connection:
        connection.sendall(begun_call(call) + data(b"\0" + (100_000).to_bytes(4, "big")))
        received = b""
        while not has_ended(received):
            assert time.monotonic() < end, f"still held after {END_TIMEOUT} s"
            readable, _, _ = select.select([connection], [], [], 0.1)
            if readable:
                piece = connection.recv(65536)
                assert piece, received
                received += piece
            connection.sendall(data(b"x"))


def begun_call(call: str) -> bytes:
    """Returns the bytes with which a client begins its connection and a call: `:method POST`, `:scheme http`, and the
    other headers."""
    rest = {":path": f"/inference.GRPCInferenceService/{call}", ":authority": "a", "content-type": "application/grpc"}
    literal = lambda text: bytes([len(text)]) + text.encode()  # noqa: E731
    block = b"\x83\x86" + b"".join(b"\0" + literal(name) + literal(value) for name, value in rest.items())
    return crowd.MAGIC + crowd.SETTINGS + len(block).to_bytes(3, "big") + b"\x01\x04\0\0\0\x01" + block


def data(payload: bytes) -> bytes:
    """Returns a DATA frame of the first stream."""
    return len(payload).to_bytes(3, "big") + b"\0\0\0\0\0\x01" + payload


def has_ended(received: bytes) -> bool:
    """Returns true once the first stream was reset, or has headers that end it."""
    while len(received) >= 9:
        kind, flags, length = received[3], received[4], int.from_bytes(received[:3], "big")
        if len(received) < 9 + length:
            return False
        if kind == 3 or kind == 1 and flags & 1:
            return True
        received = received[9 + length :]
    return False


def test_one_address_cannot_take_all_connections(impatient):
    held = [socket.create_connection(("127.0.0.1", impatient.http_port)) for _ in range(600)]
    with socket.create_connection(("127.0.0.1", impatient.http_port), source_address=("127.0.0.2", 0)) as other:
        other.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: models.tests\r\nConnection: close\r\n\r\n")
        other.settimeout(1)
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")
    for connection in held:
        connection.close()


def test_good_requests_are_served_during_attacks(impatient):
    kinds = [*HOSTILE.values(), *BODIES.values()]
    with ThreadPoolExecutor(len(kinds)) as pool:
        attacks = [pool.submit(received_until_the_end, impatient.http_port, *kind) for kind in kinds]
        while not all(attack.done() for attack in attacks):
            assert impatient.infer("add_sub", wire.add_sub()).status == 200
        for attack in attacks:
            attack.result()
