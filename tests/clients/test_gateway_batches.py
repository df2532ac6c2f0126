"""A gateway that forms batches decodes the requests: the memory for a hostile message stays within bounds."""

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

import gateway
import wire
from server import GOOD, Server
from test_batching import number, together
from test_grpc import message
from test_memory import ATTACKERS, GROWTH, INFER, forget_peaks, peak_bytes

BATCHER = {"maxBatchSize": 8, "maxLatency": 1000}
REQUESTS = 17
# One MiB of empty inputs, and as many inputs as a message may have. Without a limit on tensors, the former would take
# 162 MiB.
MANY = b"\x2a\x00" * 2**19
MOST = b"\x2a\x00" * 4000
PARAMETERS = b"".join(b"\x22\x06\x0a\x04" + f"{index:04x}".encode() for index in range(2**16))
GOOD_REQUEST = message("add_sub", ("INPUT0", "FP32", [1, 16]), ("INPUT1", "FP32", [1, 16]), raw=[bytes(64)] * 2)


@pytest.fixture(scope="module")
def gathering(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("gathering") / "log", [GOOD])
    gateway.use_gateway(running, batcher=BATCHER)
    running.start()
    yield running
    running.stop()


def code(server, body: bytes) -> str:
    options = [("grpc.default_authority", wire.HOST), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(server.grpc, options) as channel:
        try:
            channel.unary_unary(INFER)(body, timeout=60)
        except grpc.RpcError as error:
            return error.code().name
    return "OK"


def test_good_requests_are_batched(gathering):
    answers = together(gathering, "slow", [number(value) for value in range(REQUESTS)])
    assert [answer.outputs()["OUTPUT0"]["data"] for answer in answers] == [[value] for value in range(REQUESTS)]
    # The runtime received fewer requests, which shows that this gateway decodes and combines them.
    assert gathering.statistics("slow")["inference_stats"]["success"]["count"] < REQUESTS


@pytest.mark.parametrize("body", [MANY, MOST, PARAMETERS], ids=["many inputs", "most inputs", "parameters"])
def test_memory_use_follows_the_received_bytes(gathering, body):
    good = GOOD_REQUEST.SerializeToString()
    refused = code(gathering, body)
    assert refused in ("INVALID_ARGUMENT", "NOT_FOUND"), refused
    forget_peaks(gathering)
    before = peak_bytes(gathering)
    ended = threading.Event()

    def attack() -> set[str]:
        codes = set()
        while not ended.is_set():
            codes.add(code(gathering, body))
        return codes

    with ThreadPoolExecutor(ATTACKERS) as pool:
        attacks = [pool.submit(attack) for _ in range(ATTACKERS)]
        answers = {code(gathering, good) for _ in range(50)}
        ended.set()
        codes = set.union(*(running.result() for running in attacks))
    assert answers == {"OK"} and codes == {refused}
    assert peak_bytes(gathering) - before < GROWTH
