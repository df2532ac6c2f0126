"""Clients that hold a connection and are of no use: each wait for them ends, and others are served meanwhile."""

import select
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import wire
from server import GOOD, Server

LIMIT = 2.0
# The limit, a quarter more, and a busy machine. Before there were bounds most of these connections never ended.
SOON = 15.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
PING = b"\0\0\x08\x06\0\0\0\0\0pingpong"
INFER = b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: models.tests\r\n"

# What is sent at once, and what again and again.
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


def told_until_the_end(port: int, begin: bytes, drip: bytes) -> bytes:
    """Returns what a client was sent until its connection ended."""
    told, end = b"", time.monotonic() + SOON
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(begin)
        while time.monotonic() < end:
            readable, _, _ = select.select([connection], [], [], 0.1)
            try:
                if readable:
                    piece = connection.recv(65536)
                    if not piece:
                        return told
                    told += piece
                if drip:
                    connection.sendall(drip)
            except OSError:
                return told
    raise AssertionError(f"still held after {SOON} s")


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("port", ["http_port", "grpc_port"])
def test_connections_without_a_request_end(impatient, port, kind):
    told_until_the_end(getattr(impatient, port), *HOSTILE[kind])


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_that_crawl_are_refused(impatient, kind):
    assert told_until_the_end(impatient.http_port, *BODIES[kind]).startswith(b"HTTP/1.1 408 ")


def test_one_address_leaves_places_for_others(impatient):
    held = [socket.create_connection(("127.0.0.1", impatient.http_port)) for _ in range(600)]
    with socket.create_connection(("127.0.0.1", impatient.http_port), source_address=("127.0.0.2", 0)) as other:
        other.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: models.tests\r\nConnection: close\r\n\r\n")
        other.settimeout(1)
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")
    for connection in held:
        connection.close()


def test_others_are_served_beside_them(impatient):
    kinds = [*HOSTILE.values(), *BODIES.values()]
    with ThreadPoolExecutor(len(kinds)) as pool:
        attacks = [pool.submit(told_until_the_end, impatient.http_port, *kind) for kind in kinds]
        while not all(attack.done() for attack in attacks):
            assert impatient.infer("add_sub", wire.add_sub()).status == 200
        for attack in attacks:
            attack.result()
