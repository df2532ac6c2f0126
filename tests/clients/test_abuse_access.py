"""The attacks of test_abuse.py on a gateway with access control, by a client with a key and by one without.

The option `--faults 10000` sends as many attacks as test_abuse.py does; without it, there are a thousand.
"""

import random
import socket
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

import test_abuse
import wire
from server import wait_until
from test_access import Guarded
from test_grpc import message

HOST_LINE = f"Host: {wire.HOST}\r\n".encode()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    running = Guarded(tmp_path_factory.mktemp("guarded"))
    yield running
    running.server.stop()


def send(guarded, seed: int, key: str) -> bytes:
    """Sends an attack, with a key if there is one. Returns the beginning of the response."""
    rng = random.Random(seed)
    data, hangs_up = rng.choice(test_abuse.KINDS)(rng)
    if key:
        data = data.replace(HOST_LINE, HOST_LINE + f"x-api-key: {key}\r\n".encode(), 1)
    with socket.create_connection(("127.0.0.1", guarded.server.http_port), timeout=20) as connection:
        try:
            connection.sendall(data)
            if hangs_up:
                return b""
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(65536)
        except OSError:
            # The gateway refused the request and closed the connection before everything was sent.
            return b""


def answers(guarded, count: int, key: str) -> list:
    with ThreadPoolExecutor(8) as pool:
        seeds = range(test_abuse.SEED, test_abuse.SEED + count)
        return list(pool.map(lambda seed: send(guarded, seed, key), seeds, chunksize=50))


def statuses(received: list) -> set:
    return {wire.status_of(answer) for answer in received if answer.startswith(b"HTTP/1.1 ")}


def good(guarded) -> None:
    reply = guarded.server.infer("add_sub", wire.add_sub(), guarded.bearer("user"))
    assert reply.outputs()["OUTPUT0"]["data"] == list(range(1, 17))


def handled(guarded) -> float:
    """Returns the number of requests that reached the runtime."""
    lines = guarded.server.metrics_text().splitlines()
    names = ("nv_inference_request_success", "nv_inference_request_failure")
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(names))


def test_attacks_without_a_key_reach_no_replica(guarded, pytestconfig):
    good(guarded)
    before = handled(guarded)
    seen = statuses(answers(guarded, pytestconfig.getoption("--faults"), ""))
    assert 401 in seen and all(400 <= status < 500 for status in seen), seen
    assert handled(guarded) == before
    good(guarded)


def test_attacks_with_a_key_leave_others_served(guarded, pytestconfig):
    good(guarded)
    before = guarded.server.allocated_bytes()
    seen = statuses(answers(guarded, pytestconfig.getoption("--faults"), guarded.keys["user"]))
    assert {400, 403} <= seen and 401 not in seen, seen
    good(guarded)
    # More than noise, and less than any leak of a request's buffers would add.
    wait_until(lambda: guarded.server.allocated_bytes() <= before + (64 << 20), 10, "the memory of before")
    good(guarded)


@pytest.mark.parametrize("client", ["user", None])
def test_noise_over_grpc(guarded, client):
    rng = random.Random(test_abuse.SEED)
    metadata = list(guarded.bearer(client).items()) if client else []
    expected = {grpc.StatusCode.UNAUTHENTICATED} if client is None else set()
    valid = message("add_sub", ("INPUT0", "FP32", [1, 16]), raw=[np.zeros(16, np.float32).tobytes()]).SerializeToString()
    with grpc.insecure_channel(guarded.server.grpc, options=[("grpc.default_authority", wire.HOST)]) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for _ in range(100):
            data = bytearray(valid)
            for _ in range(rng.randrange(1, 5)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            with pytest.raises(grpc.RpcError) as error:
                call(bytes(data), metadata=metadata, timeout=5)
            assert not expected or error.value.code() in expected
    good(guarded)


def test_unfinished_bodies_without_a_key_hold_nothing(guarded):
    """The gateway refuses a client without a key before it reads the body, so that such bodies take no memory."""
    before = guarded.server.allocated_bytes()
    slow = []
    for _ in range(100):
        connection = socket.create_connection(("127.0.0.1", guarded.server.http_port), timeout=20)
        connection.sendall(test_abuse.http_bytes(b" " * 60_000, {}, length=1 << 30))
        slow.append(connection)
    for connection in slow:
        assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")
    good(guarded)
    assert guarded.server.allocated_bytes() < before + (32 << 20)
    for connection in slow:
        connection.close()
