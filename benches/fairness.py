#!/usr/bin/env python3
"""Measures how a client that sends ten times its share affects others: `make bench-fairness`.

    python3 -B benches/fairness.py [--weir target/release/weir] [--seconds 20] [--only TEXT] [--dry]

A gateway with access control is in front of one replica for 32 requests at a time, which sleeps for the time that a
request names. Three clients each send three fifths of a fourth of what the replica can do, at regular times. The
aggressor keeps eighty requests open, ten times its own fourth. The table compares the 99th percentile of the three
clients without and beside the aggressor, and counts their refused requests. Writes benches/results/fairness.json and
the table of docs/access.md.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import frames
from harness.paths import ACCESS_PAGE, FAIRNESS_RESULTS, ROOT
from harness.record import machine, written
from harness.servers import free_ports

HOST = "models.tests"
PATH = "/v2/models/sleep/infer"
# Requests that the replica works on at once, and the clients that share them.
PLACES, CLIENTS = 32, 4
# Requests that may wait; the aggressor has more, so that the queue is full.
QUEUE = 40
# Part of its share that a well-behaved client uses.
USED = 0.6
# Requests that the aggressor keeps open: ten times its share of the places.
AGGRESSION = 10 * PLACES // CLIENTS
SHORT_MS, LONG_MS = 100, 1000
GOAL = 1.2
# Events of a streamed answer.
EVENTS = 5
# Seconds before a refused request is sent again.
PAUSE = 0.02


class Engine:
    """The replica: an HTTP/1.1 server whose answers take the milliseconds in the request's body."""

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [part for part in head.lower().split(b"\r\n") if part.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
                await self.answer(writer, json.loads(body) if body else {"ms": 0})
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def answer(self, writer, request: dict):
        seconds = request["ms"] / 1000
        if not request.get("stream"):
            await asyncio.sleep(seconds)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
            return await writer.drain()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(EVENTS):
            await asyncio.sleep(seconds / EVENTS)
            writer.write(b"9\r\ndata: 0\n\n\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def serve(port: int):
    server = await asyncio.start_server(Engine().serve, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


class Http1:
    """A client with as many HTTP/1.1 connections as it has requests at once."""

    def __init__(self, port: int, key: str):
        self.port, self.key, self.free = port, key, []

    async def ask(self, body: bytes) -> int:
        reader, writer = self.free.pop() if self.free else await asyncio.open_connection("127.0.0.1", self.port)
        head = f"POST {PATH} HTTP/1.1\r\nhost: {HOST}\r\nx-api-key: {self.key}\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"chunked" in head:
            while (size := int(await reader.readline(), 16)) >= 0:
                await reader.readexactly(size + 2)
                if size == 0:
                    break
        else:
            await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        self.free.append((reader, writer))
        return int(head.split()[1])


class Http2:
    """A client with one HTTP/2 connection for all of its requests."""

    def __init__(self, port: int, key: str):
        self.port, self.key, self.connected, self.stream, self.open = port, key, None, -1, {}

    async def connect(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(frames.preface() + frames.grant(0, 1 << 30))
        self.task = asyncio.create_task(self.read())

    async def read(self):
        buffer = bytearray()
        while piece := await self.reader.read(65536):
            buffer += piece
            for kind, flags, stream, payload in frames.parse(buffer):
                if kind in (frames.SETTINGS, frames.PING) and not flags & frames.ACK:
                    self.writer.write(frames.frame(kind, frames.ACK, 0, payload if kind == frames.PING else b""))
                elif kind == frames.HEADERS and stream in self.open:
                    # The status is the first field, which the static table has for 200 alone (RFC 7541, appendix A).
                    self.open[stream][0] = self.open[stream][0] or (200 if payload[0] == 0x88 else 429)
                if stream in self.open and (kind == frames.RESET or kind < 2 and flags & frames.END_STREAM):
                    status, done = self.open.pop(stream)
                    if not done.done():
                        done.set_result(status or 500)

    async def ask(self, body: bytes) -> int:
        self.connected = self.connected or asyncio.ensure_future(self.connect())
        await self.connected
        self.stream += 2
        head = frames.fields((":method", "POST"), (":scheme", "http"), (":path", PATH), (":authority", HOST),
                             ("x-api-key", self.key))
        done = asyncio.get_running_loop().create_future()
        self.open[self.stream] = [0, done]
        self.writer.write(frames.frame(frames.HEADERS, frames.END_HEADERS, self.stream, head) + frames.data(self.stream, body))
        return await done


KINDS = {"HTTP/1.1": (Http1, False), "HTTP/2": (Http2, False), "streams over HTTP/1.1": (Http1, True),
         "streams over HTTP/2": (Http2, True)}


async def aggressor(client, body: bytes, end: float, counts: dict):
    while time.monotonic() < end:
        status = await client.ask(body)
        counts[status] = counts.get(status, 0) + 1
        if status != 200:
            await asyncio.sleep(PAUSE)


async def attack(kind: str, port: int, key: str, ms: int, seconds: float) -> dict:
    make, stream = KINDS[kind]
    client, counts, end = make(port, key), {}, time.monotonic() + seconds
    body = json.dumps({"ms": ms, "stream": stream}).encode()
    asks = [asyncio.create_task(aggressor(client, body, end, counts)) for _ in range(AGGRESSION)]
    await asyncio.wait(asks, timeout=seconds + 1)
    return counts


async def one(client, body: bytes, took: list, statuses: list):
    begun = time.monotonic()
    statuses.append(await client.ask(body))
    took.append(time.monotonic() - begun)


async def regular(client, body: bytes, every: float, end: float, took: list, statuses: list):
    chance, asks = random.Random(client.key), []
    while time.monotonic() < end:
        asks.append(asyncio.create_task(one(client, body, took, statuses)))
        await asyncio.sleep(every * chance.uniform(0.5, 1.5))
    await asyncio.wait_for(asyncio.gather(*asks), 60)


async def others(kind: str, port: int, keys: list, ms: int, seconds: float) -> tuple:
    make, stream = KINDS[kind]
    body = json.dumps({"ms": ms, "stream": stream}).encode()
    took, statuses, end = [], [], time.monotonic() + seconds
    every = ms / 1000 / (USED * PLACES / CLIENTS)
    await asyncio.gather(*(regular(make(port, key), body, every, end, took, statuses) for key in keys))
    return took, statuses


def run(pipe, work, nice: int):
    os.nice(nice)
    pipe.send(asyncio.run(work))


def begin(work, nice: int = 0):
    """Runs a coroutine in a process of its own. Returns a function that waits for its result."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=run, args=(theirs, work, nice))
    process.start()
    work.close()

    def result():
        received = ours.recv()
        process.join()
        return received

    return result


def p99_ms(took: list) -> float:
    return 1000 * sorted(took)[min(len(took) - 1, len(took) * 99 // 100)]


def measure(kind: str, name: str, own_ms: int, others_ms: int, port: int, keys: list, seconds: float) -> dict:
    alone, _ = begin(others(kind, port, keys[1:], others_ms, seconds))()
    # The aggressor would use another machine, so it leaves the CPU to the rest.
    hostile = begin(attack(kind, port, keys[0], own_ms, seconds + 1), 10)
    time.sleep(1)
    took, statuses = begin(others(kind, port, keys[1:], others_ms, seconds - 1))()
    counts = hostile()
    refused = sum(status != 200 for status in statuses)
    point = {"kind": kind, "requests": name, "p99_alone_ms": p99_ms(alone), "p99_beside_ms": p99_ms(took),
             "samples": len(took), "refused": refused, "aggressor_answered": counts.get(200, 0),
             "aggressor_refused": sum(count for status, count in counts.items() if status != 200)}
    point["ratio"] = point["p99_beside_ms"] / point["p99_alone_ms"]
    print(line(point), flush=True)
    return point


def line(point: dict) -> str:
    return (f"| {point['kind']} | {point['requests']} | {point['p99_alone_ms']:.0f} | {point['p99_beside_ms']:.0f} | {point['ratio']:.2f} | "
            f"{point['refused']} of {point['samples']} | {point['aggressor_answered']}, {point['aggressor_refused']} refused |")


def table(points: list) -> str:
    return "\n".join(["| clients | requests | p99 alone, ms | p99 beside, ms | ratio | refused | aggressor answered |",
                      "|---|---|---|---|---|---|---|", *map(line, points)])


def manifest() -> str:
    command = [sys.executable, str(Path(__file__).resolve()), "--serve", "$(PORT)"]
    container = {"name": "kserve-container", "command": command}
    predictor = {"minReplicas": 1, "maxReplicas": 1, "containerConcurrency": PLACES, "containers": [container]}
    metadata = {"name": "models", "namespace": "tests", "annotations": {"weir.dev/max-queue": str(QUEUE)}}
    return json.dumps({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": metadata,
                       "spec": {"predictor": predictor}})


def wait_until_ready(port: int, key: str):
    async def ready():
        for _ in range(600):
            try:
                if await Http1(port, key).ask(b'{"ms": 0}') == 200:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.1)
        raise SystemExit("the service did not become ready")

    asyncio.run(ready())


def all_points(args, port: int, keys: list) -> list:
    mixes = [("short", SHORT_MS, SHORT_MS), ("long", LONG_MS, LONG_MS), ("short, the aggressor's long", LONG_MS, SHORT_MS)]
    chosen = [(kind, mix) for mix in mixes for kind in KINDS if args.only in f"{kind} {mix[0]}"]
    return [measure(kind, *mix, port, keys, args.seconds) for kind, mix in chosen]


def update_page(result: dict):
    begin_mark, end_mark = "<!-- measured -->\n", "<!-- end -->"
    before, rest = ACCESS_PAGE.read_text().split(begin_mark)
    _, after = rest.split(end_mark)
    ACCESS_PAGE.write_text(f"{before}{begin_mark}{table(result['points'])}\n{end_mark}{after}")


def compare(args) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder, (port, admin) = Path(name), free_ports(2)
        keys_file, rules = folder / "keys.yaml", folder / "rules.yaml"
        create = [args.weir, "key", "create", "--file", str(keys_file), "--client"]
        keys = [subprocess.check_output([*create, f"client-{number}"], text=True).strip() for number in range(CLIENTS)]
        rules.write_text(json.dumps({"rules": [{"clients": ["*"], "services": ["*"]}]}))
        (folder / "models.yaml").write_text(manifest())
        command = [args.weir, "up", "-f", str(folder / "models.yaml"), "--port", str(port), "--admin-port", str(admin),
                   "--state-dir", str(folder / "state"), "--access-file", str(keys_file), "--access-file", str(rules)]
        log = (folder / "log").open("wb")
        weir = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until_ready(port, keys[0])
            others_busy, points = os.getloadavg()[0], all_points(args, port, keys)
        finally:
            weir.terminate()
            weir.wait(60)
    if not args.dry:
        result = {"machine": machine(), "seconds": args.seconds, "others_busy": others_busy, "points": points}
        FAIRNESS_RESULTS.write_text(written(result))
        update_page(result)
    missed = [point for point in points if point["refused"] or point["ratio"] > GOAL]
    print(f"{len(points)} measurements, {len(missed)} above the goal of {GOAL}")
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", type=int, help="run only the replica, on this port")
    parser.add_argument("--weir", default=str(ROOT / "target" / "release" / "weir"), help="the program weir")
    parser.add_argument("--seconds", type=float, default=20, help="time of each measurement")
    parser.add_argument("--only", default="", help="only measurements whose names contain this text")
    parser.add_argument("--dry", action="store_true", help="write no results")
    args = parser.parse_args()
    if args.serve is not None:
        asyncio.run(serve(args.serve))
        return 0
    return compare(args)


if __name__ == "__main__":
    sys.exit(main())
