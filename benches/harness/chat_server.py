"""A fake engine that batches, as a program: `chat_server.py PORT [--width 256] [--knee 32] [--seen FOLDER]`.

It works on `--width` requests at once, and queues the others. A token of an answer takes 2.5 ms, and a request's
`max_tokens` says how many tokens its answer has. Beyond `--knee` requests in the engine, all of them slow down with the
square of the excess. `/metrics` has vLLM's gauges, and `/most` the largest number of requests in the engine since
`/most` was last read.
"""

import argparse
import asyncio
import heapq
import itertools
import json
import time
from pathlib import Path

TOKEN_S = 0.0025
# Number of pieces of a streamed answer. With more, Python's own speed would be measured.
PIECES = 8
# Time in seconds by which an answer may be early, so that a timer does not have to be exact.
EARLY = 0.0005
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
METRICS = 'vllm:num_requests_running{{model_name="chat"}} {}\nvllm:num_requests_waiting{{model_name="chat"}} {}\n'


class Work:
    """The work on all running requests, which proceeds at the same speed for each of them."""

    def __init__(self, knee: float):
        self.knee, self.requests = knee, 0
        # Seconds of work that a request which has run since the start has received.
        self.done, self.at = 0.0, time.monotonic()
        self.ends: list = []
        self.numbers, self.timer = itertools.count(), None

    def speed(self) -> float:
        return max(1.0, self.requests / self.knee) ** -2

    def change(self, requests: int) -> None:
        """Adds requests to the engine, or removes some."""
        self.proceed()
        self.requests += requests
        self.set_timer()

    async def do(self, seconds: float) -> None:
        """Returns once a request that starts now has received this much work."""
        self.proceed()
        end = asyncio.get_running_loop().create_future()
        heapq.heappush(self.ends, (self.done + seconds, next(self.numbers), end))
        self.set_timer()
        await end

    def proceed(self) -> None:
        now = time.monotonic()
        self.done += (now - self.at) * self.speed()
        self.at = now

    def set_timer(self) -> None:
        if self.timer:
            self.timer.cancel()
        self.timer = None
        if self.ends:
            left = max(0.0, self.ends[0][0] - self.done) / self.speed()
            self.timer = asyncio.get_running_loop().call_later(left, self.end_due)

    def end_due(self) -> None:
        self.proceed()
        while self.ends and self.ends[0][0] <= self.done + EARLY * self.speed():
            end = heapq.heappop(self.ends)[2]
            if not end.done():
                end.set_result(None)
        self.set_timer()


class Engine:
    def __init__(self, width: int, knee: float):
        self.places, self.width, self.work = asyncio.Semaphore(width), width, Work(knee)
        self.most = 0

    async def serve(self, reader, writer) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
                if head.startswith(b"GET"):
                    await send(writer, self.page(head.split(b" ", 2)[1].decode()).encode())
                else:
                    await self.infer(writer, json.loads(body))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def page(self, path: str) -> str:
        now = self.work.requests
        if path == "/most":
            most, self.most = self.most, now
            return json.dumps(most)
        running = min(now, self.width)
        return METRICS.format(running, now - running)

    async def infer(self, writer, request: dict) -> None:
        self.work.change(1)
        self.most = max(self.most, self.work.requests)
        try:
            async with self.places:
                await self.answer(writer, request["max_tokens"] * TOKEN_S, request.get("stream", False))
        finally:
            self.work.change(-1)

    async def answer(self, writer, seconds: float, is_stream: bool) -> None:
        if not is_stream:
            await self.work.do(seconds)
            return await send(writer, b'{"choices": []}')
        writer.write(EVENTS)
        for _ in range(PIECES):
            await self.work.do(seconds / PIECES)
            writer.write(b'f\r\ndata: {"a":0}\n\n\r\n')
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def send(writer, body: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()


async def run(arguments) -> None:
    engine = Engine(arguments.width, arguments.knee)
    server = await asyncio.start_server(engine.serve, "127.0.0.1", arguments.port, backlog=4096)
    if arguments.seen:
        (arguments.seen / str(arguments.port)).touch()
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--width", type=int, default=256, help="requests that the engine works on at once")
    parser.add_argument("--knee", type=float, default=float("inf"), help="requests beyond which it slows down")
    parser.add_argument("--seen", type=Path, help="folder in which each engine leaves a file with its port as the name")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
