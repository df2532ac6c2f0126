"""Clients of a fake engine: closed loops, whose requests follow their answers, and an open one, at a given rate."""

import asyncio
import json
import math
import random
import time
from dataclasses import dataclass, field
from typing import Callable


class Lengths:
    """Lengths of successive answers, in tokens. The same seed gives the same lengths to each measurement."""

    def __init__(self, mean: float, are_equal: bool = False):
        self.mean, self.are_equal, self.random = mean, are_equal, random.Random(1)

    def draw(self) -> float:
        return self.mean * (1.0 if self.are_equal else math.exp(self.random.gauss(-0.5, 1.0)))


@dataclass
class Load:
    """What clients send to a port, and the moments and durations of the answers."""

    port: int
    path: str
    lengths: Lengths
    stream: bool = False
    # Factor by which the lengths of answers are multiplied from now on.
    factor: Callable[[], float] = lambda: 1.0
    answers: list = field(default_factory=list)

    def request(self) -> bytes:
        body = json.dumps({"model": "chat", "max_tokens": self.lengths.draw() * self.factor(), "stream": self.stream})
        head = f"POST {self.path} HTTP/1.1\r\nhost: localhost:{self.port}\r\ncontent-type: application/json\r\n"
        return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()

    async def exchange(self, reader, writer) -> None:
        begun = time.monotonic()
        writer.write(self.request())
        await answer(reader)
        self.answers.append((time.monotonic(), time.monotonic() - begun))

    def rate(self, since: float, until: float) -> dict:
        """Returns the answers per second between two moments, and their latencies."""
        took = sorted(took for at, took in self.answers if since < at <= until)
        if not took:
            raise RuntimeError("nothing was answered")
        at = lambda share: took[min(len(took) - 1, int(len(took) * share))]
        return {"rate": len(took) / (until - since), "p50": at(0.5), "p99": at(0.99)}


async def answer(reader) -> bytes:
    """Reads a response with a length or in chunks, and returns its body if it has a length."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise RuntimeError(head.decode())
    if b"chunked" not in head:
        return await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readline()
    return b""


async def get(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost:{port}\r\n\r\n".encode())
    body = await asyncio.wait_for(answer(reader), 30)
    writer.close()
    return body


async def closed_loop(load: Load) -> None:
    """One client, which sends the next request once the previous one is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    while True:
        await load.exchange(reader, writer)


async def once(load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    await load.exchange(reader, writer)
    writer.close()


async def open_loop(load: Load, rate: Callable[[], float]) -> None:
    """Sends requests at random times, `rate` per second, whether or not earlier ones are answered."""
    at, calls = time.monotonic(), set()
    while True:
        at += load.lengths.random.expovariate(rate())
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        calls.add(call := asyncio.create_task(once(load)))
        for done in [call for call in calls if call.done()]:
            calls.discard(done)
            done.result()


async def run_for(seconds: float, *loops) -> None:
    """Runs these loops for some seconds. If one fails, all end."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
