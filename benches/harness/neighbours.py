"""Well-behaved clients in their own process, and how well they are served during an attack."""

import asyncio
import json
import multiprocessing
import struct
import time

from . import frames

CLIENTS = 8
# Seconds between two requests of a client: long enough to leave most of the CPU free.
EVERY = 0.05
# Seconds after which a request counts as failed.
REQUEST_TIMEOUT = 20.0

VALUES = [float(number) for number in range(16)]
SUMS = [value + 1 for value in VALUES]


def tensor(name: str, values: list) -> dict:
    return {"name": name, "datatype": "FP32", "shape": [1, 16], "data": values}


BODY = json.dumps({"inputs": [tensor("INPUT0", VALUES), tensor("INPUT1", [1.0] * 16)]}).encode()


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def input_message(name: bytes) -> bytes:
    return field(5, field(1, name) + field(2, b"FP32") + field(3, b"\x01\x10"))


MESSAGE = frames.message(
    field(1, b"add_sub") + input_message(b"INPUT0") + input_message(b"INPUT1")
    + field(7, struct.pack("<16f", *VALUES)) + field(7, struct.pack("<16f", *[1.0] * 16)))
ANSWER = struct.pack("<16f", *SUMS)


class Http:
    """A client over HTTP/1.1 on one connection, which it reopens when it is closed."""

    def __init__(self, port: int, host: str):
        self.port, self.streams = port, None
        head = f"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: {host}\r\n{frames.key_lines()}Content-Length: {len(BODY)}\r\n\r\n"
        self.request = head.encode() + BODY

    async def ask(self) -> None:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        writer.write(self.request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        answer = json.loads(await reader.readexactly(int(length.split(b":")[1])))
        assert answer["outputs"][0]["data"] == SUMS, answer


class Grpc:
    """A client over gRPC on one connection."""

    def __init__(self, port: int, host: str):
        self.port, self.host, self.streams = port, host, None

    async def ask(self) -> None:
        if self.streams is None:
            self.streams, self.stream, self.buffer = await asyncio.open_connection("127.0.0.1", self.port), -1, bytearray()
            # The window is large enough for all responses of a run; the default of 64 KiB is only enough for some
            # hundred.
            self.streams[1].write(frames.preface() + frames.grant(0, 1 << 30))
        reader, writer = self.streams
        self.stream += 2
        writer.write(frames.call(self.stream, frames.INFER, self.host) + frames.data(self.stream, MESSAGE))
        answer, is_over = b"", False
        while not is_over:
            for kind, flags, stream, payload in frames.parse(self.buffer):
                if kind == frames.SETTINGS and not flags & frames.ACK:
                    writer.write(frames.frame(frames.SETTINGS, frames.ACK, 0))
                elif kind == frames.PING and not flags & frames.ACK:
                    writer.write(frames.frame(frames.PING, frames.ACK, 0, payload))
                elif kind == frames.GOAWAY:
                    raise ConnectionError(payload)
                elif stream == self.stream:
                    answer += payload if kind == frames.DATA else b""
                    is_over = kind == frames.RESET or bool(flags & frames.END_STREAM)
            if not is_over:
                piece = await reader.read(65536)
                if not piece:
                    raise ConnectionError("closed")
                self.buffer += piece
        assert ANSWER in answer, answer


KINDS = {"http": Http, "grpc": Grpc}


async def one(client, end: float, times: list, failures: list) -> None:
    while time.monotonic() < end:
        begun = time.monotonic()
        try:
            await asyncio.wait_for(client.ask(), REQUEST_TIMEOUT)
            times.append(time.monotonic() - begun)
        except Exception as error:  # Any failure of a request is counted.
            failures.append(repr(error)[:200])
            client.streams = None
        await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - begun)))


async def all_of(port: int, host: str, wires: list, seconds: float) -> tuple:
    """Runs clients of all protocols in turn. Returns the times and the failures."""
    times, failures, end = [], [], time.monotonic() + seconds
    clients = [KINDS[wires[number % len(wires)]](port, host) for number in range(CLIENTS)]
    await asyncio.gather(*(one(client, end, times, failures) for client in clients))
    return times, failures


def run(pipe, key, *arguments) -> None:
    frames.key = key
    pipe.send(asyncio.run(all_of(*arguments)))


def start(port: int, host: str, wires: list, seconds: float, key=None):
    """Starts the clients of one port. Returns a function that waits for them and returns their times and failures."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=run, args=(theirs, key, port, host, wires, seconds))
    process.start()

    def result() -> tuple:
        results = ours.recv()
        process.join()
        return results

    return result


def together(results: list) -> dict:
    """Summarises how all clients were served."""
    times = sorted(one for times, _ in results for one in times)
    failures = [failure for _, failures in results for failure in failures]
    at = lambda share: 1e3 * times[min(len(times) - 1, int(share * len(times)))] if times else None  # noqa: E731
    return {"requests": len(times) + len(failures), "failed": len(failures), "first_failure": next(iter(failures), None),
            "p50_ms": at(0.5), "p99_ms": at(0.99)}
