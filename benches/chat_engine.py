"""Compares a chat engine with and without Weir's gateway: requests per second, latency, and requests at once.

    python3 benches/chat_engine.py [--weir target/debug/weir] [--clients 8 64 200] [--seconds 20]

The engine is a process of this file. It works on 256 requests at once, queues the others, and takes 2.5 ms for each
token of an answer. The lengths of answers are log-normal with a mean of 336 tokens. `--workers 1` makes it a server
that works on one request at a time, `--tokens` changes the mean length, and `--equal` makes all lengths equal.
"""

import argparse
import asyncio
import itertools
import json
import math
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOKEN_S = 0.0025
# Pieces of a streamed answer. More would measure Python.
PIECES = 8
SERVICE = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {{name: chat}}
spec:
  predictor:
    minReplicas: 1
    maxReplicas: 1
    containers:
      - name: kserve-container
        command: {command}
"""


class Engine:
    """A fake engine with one HTTP port."""

    def __init__(self, arguments):
        self.places = asyncio.Semaphore(arguments.workers)
        self.random = random.Random(1)
        self.arguments = arguments
        self.now, self.most = 0, 0

    def tokens(self) -> float:
        if self.arguments.equal:
            return self.arguments.tokens
        return self.arguments.tokens * math.exp(self.random.gauss(-0.5, 1.0))

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line = head.split(b"\r\n", 1)[0]
                length = [part for part in head.lower().split(b"\r\n") if part.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
                if line.startswith(b"GET"):
                    await send(writer, json.dumps({"most": self.most}).encode())
                    self.most = self.now
                    continue
                self.now += 1
                self.most = max(self.most, self.now)
                try:
                    async with self.places:
                        await self.answer(writer, b'"stream": true' in body)
                finally:
                    self.now -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def answer(self, writer, is_stream: bool):
        took = self.tokens() * TOKEN_S
        if not is_stream:
            await asyncio.sleep(took)
            return await send(writer, b'{"choices": []}')
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(PIECES):
            await asyncio.sleep(took / PIECES)
            writer.write(b"f\r\ndata: {\"a\":0}\n\n\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def send(writer, body: bytes):
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()


async def serve(arguments):
    engine = Engine(arguments)
    server = await asyncio.start_server(engine.serve, "127.0.0.1", arguments.serve, backlog=4096)
    await server.serve_forever()


async def exchange(port: int, path: str, stream: bool, stop: float, times: list):
    """One client: sends the next request once the previous one is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "model": "chat", "stream": stream}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost:{port}\r\ncontent-type: application/json\r\n"
    request = head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body
    while (begun := time.monotonic()) < stop:
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(head.decode())
        if b"chunked" in head:
            while (size := int(await reader.readline(), 16)) >= 0:
                await reader.readexactly(size + 2)
                if size == 0:
                    break
        else:
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
        times.append((time.monotonic(), time.monotonic() - begun))
    writer.close()


async def load(port: int, arguments, clients: int, stream: bool) -> dict:
    """Returns requests per second and latencies, without the first quarter of the time."""
    start = time.monotonic()
    times: list = []
    stop = start + arguments.seconds
    path = arguments.path
    calls = [asyncio.create_task(exchange(port, path, stream, stop, times)) for _ in range(clients)]
    await asyncio.sleep(arguments.seconds)
    for call in calls:
        if call.done() and call.exception():
            raise call.exception()
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    since = start + arguments.seconds / 4
    took = sorted(each for at, each in times if at > since)
    return {
        "rate": len(took) / (arguments.seconds * 0.75),
        "p50": took[len(took) // 2] if took else None,
        "p99": took[len(took) * 99 // 100] if took else None,
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def until_open(port: int):
    for _ in itertools.repeat(None, 1200):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


def command_of(arguments, port: str) -> list:
    command = [sys.executable, str(Path(__file__).resolve()), "--serve", port]
    command += ["--workers", str(arguments.workers), "--tokens", str(arguments.tokens)]
    return command + (["--equal"] if arguments.equal else [])


def measure(arguments):
    direct = free_port()
    engine = subprocess.Popen(command_of(arguments, str(direct)))
    folder = tempfile.TemporaryDirectory()
    manifest = Path(folder.name) / "chat.yaml"
    manifest.write_text(SERVICE.format(command=json.dumps(command_of(arguments, "$(PORT)"))))
    gateway, admin = free_port(), free_port()
    options = ["--port", str(gateway), "--admin-port", str(admin), "--state-dir", folder.name + "/state"]
    log = open(Path(folder.name) / "log", "w")
    weir = subprocess.Popen([arguments.weir, "up", "-f", str(manifest), *options], stdout=log, stderr=log)
    try:
        until_open(direct)
        until_open(gateway)
        print("| clients | answers | directly /s | through Weir /s | share | p50 s | p99 s |\n|---|---|---|---|---|---|---|")
        for stream, clients in itertools.product([False, True], arguments.clients):
            straight = asyncio.run(load(direct, arguments, clients, stream))
            through = asyncio.run(load(gateway, arguments, clients, stream))
            kind = "streamed" if stream else "whole"
            share = through["rate"] / straight["rate"]
            latency = [f"{straight[key]:.3f}, {through[key]:.3f}" for key in ("p50", "p99")]
            rates = f"{straight['rate']:.1f} | {through['rate']:.1f} | {share:.3f}"
            print(f"| {clients} | {kind} | {rates} | {latency[0]} | {latency[1]} |", flush=True)
    finally:
        weir.terminate()
        engine.terminate()
        weir.wait(60)
        print(Path(folder.name, "log").read_text()[-2000:] if arguments.log else "", end="")
        folder.cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", type=int, help="run only the engine, on this port")
    parser.add_argument("--workers", type=int, default=256, help="requests that the engine works on at once")
    parser.add_argument("--tokens", type=float, default=336, help="mean length of an answer, in tokens")
    parser.add_argument("--equal", action="store_true", help="all answers have the same length")
    parser.add_argument("--weir", default="target/debug/weir", help="the program weir")
    parser.add_argument("--clients", type=int, nargs="+", default=[8, 64, 200])
    parser.add_argument("--seconds", type=float, default=20, help="time of each measurement")
    parser.add_argument("--path", default="/serving/default/chat/v1/chat/completions", help="path of the requests")
    parser.add_argument("--log", action="store_true", help="print the end of Weir's log")
    arguments = parser.parse_args()
    if arguments.serve is None:
        measure(arguments)
    else:
        asyncio.run(serve(arguments))


if __name__ == "__main__":
    main()
