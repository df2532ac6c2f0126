"""Memory: what a hostile client sends never takes many times its size, and others are served meanwhile."""

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import psutil
import pytest

import wire
from server import GOOD, Server

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
ATTACKERS = 8
# Of a message of 1 MiB each attacker holds the bytes a few times: in the socket, gathered, and once more while
# it is decoded. Before there were bounds one of them took 160 to 320 MiB.
GROWTH = ATTACKERS * 16 * 2**20


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("memory") / "log", [GOOD]).start()
    running.infer("add_sub", wire.add_sub())
    yield running
    running.stop()


def processes(server) -> list[psutil.Process]:
    process = psutil.Process(server.process.pid)
    return [process, *process.children(recursive=True)]


def forget_peaks(server) -> None:
    for process in processes(server):
        with open(f"/proc/{process.pid}/clear_refs", "w") as file:
            file.write("5")


def peak_bytes(server) -> int:
    """Returns the sum of the processes' peaks since they were forgotten."""
    total = 0
    for process in processes(server):
        with open(f"/proc/{process.pid}/status") as file:
            peak = next(line for line in file if line.startswith("VmHWM"))
        total += int(peak.split()[1]) * 1024
    return total


def grpc_code(server, message: bytes, compression=None) -> str:
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(server.grpc, options) as channel:
        call = channel.unary_unary(INFER)
        try:
            call(message, timeout=60, compression=compression)
        except grpc.RpcError as error:
            return error.code().name
    return "OK"


def stream_code(server, message: bytes) -> str:
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.stream_stream(STREAM)
        try:
            for _ in call(iter([message]), timeout=60):
                pass
        except grpc.RpcError as error:
            return error.code().name
    return "OK"


def empty_inputs(server) -> None:
    assert grpc_code(server, b"\x2a\x00" * 2**19) == "INVALID_ARGUMENT"


def empty_inputs_on_a_stream(server) -> None:
    assert stream_code(server, b"\x2a\x00" * 2**19) == "INVALID_ARGUMENT"


def empty_parameters(server) -> None:
    entries = b"".join(b"\x22\x06\x0a\x04" + index.to_bytes(4, "big").hex()[-4:].encode() for index in range(2**16))
    assert grpc_code(server, entries) == "INVALID_ARGUMENT"


def compressed_zeros(server) -> None:
    size = 200 * 2**20
    length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21])
    assert grpc_code(server, b"\x3a" + length + bytes(size), grpc.Compression.Gzip) == "INVALID_ARGUMENT"


def settings(server) -> None:
    body = json.dumps({f"{index}": [[]] for index in range(2**18)}).encode()
    reply = server.call("POST", "/v2/logging", body)
    assert reply.status in (413, 501), reply


def unknown_setting(server) -> None:
    reply = server.call("POST", "/v2/logging", json.dumps({"x" * 60_000: 1}).encode())
    assert reply.status in (400, 501) and len(reply.body) < 500, reply


@pytest.mark.parametrize(
    "attack",
    [empty_inputs, empty_inputs_on_a_stream, empty_parameters, settings, unknown_setting],
    ids=lambda attack: attack.__name__,
)
def test_memory_follows_what_was_sent(hostile, attack):
    attack(hostile)
    forget_peaks(hostile)
    before = peak_bytes(hostile)
    with ThreadPoolExecutor(ATTACKERS + 1) as pool:
        attacks = [pool.submit(attack, hostile) for _ in range(ATTACKERS)]
        for _ in range(20):
            assert hostile.infer("add_sub", wire.add_sub()).status == 200
        for running in attacks:
            running.result()
    assert peak_bytes(hostile) - before < GROWTH


def test_compressed_messages_end_at_the_limit(hostile):
    forget_peaks(hostile)
    before = peak_bytes(hostile)
    compressed_zeros(hostile)
    # 64 MiB decompressed, twice while the buffer grows.
    assert peak_bytes(hostile) - before < 160 * 2**20
    assert hostile.infer("add_sub", wire.add_sub()).status == 200
