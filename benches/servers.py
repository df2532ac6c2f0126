"""Compares model servers of others with and without Weir's gateway: requests per second, and latency.

    .venv/bin/python -B benches/servers.py [--servers triton,mlserver] [--rounds 3] [--seconds 8] [--dry]

Each server runs behind `weir up`. Clients on kept connections send the same requests to the gateway's port and to the
server's own port in turn, so that both see the same process. Servers that scripts/servers.sh has not installed are left
out. Writes benches/results/servers.json and the table of docs/other-servers.md. Run it on an otherwise idle machine.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path

from harness import record, report
from harness.paths import ROOT

sys.path[:0] = [str(ROOT / "tests" / "servers"), str(ROOT / "tests" / "clients")]

import cases  # noqa: E402
import served  # noqa: E402

RESULT = ROOT / "benches" / "results" / "servers.json"
PAGE = ROOT / "docs" / "other-servers.md"
BEGIN = "<!-- measured: written by benches/servers.py -->"
CLIENTS = 8
# Clients of a server reach it by this host through the gateway. The server itself ignores it.
HEAD = "POST {} HTTP/1.1\r\nhost: models.tests\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"


async def answer(reader) -> tuple[int, bool]:
    """Reads a response with a length or in chunks. Returns its status, and whether the server closes the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = head.lower().split(b"\r\n")
    length = [line for line in fields if line.startswith(b"content-length:")]
    if length:
        await reader.readexactly(int(length[0].split(b":")[1]))
    else:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    return int(head.split(b" ", 2)[1]), b"connection: close" in fields


async def client(port: int, request: bytes, end: float, took: list) -> int:
    """Sends one request after the other, and returns the number of those that failed. A server such as llama.cpp's
    closes each connection after some requests; the next request then opens another, as other clients do."""
    failed, writer = 0, None
    while (begun := time.monotonic()) < end:
        if writer is None or writer.is_closing():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        status, closes = await asyncio.wait_for(answer(reader), 60)
        failed += status != 200
        took.append(time.monotonic() - begun)
        if closes:
            writer.close()
    if writer is not None:
        writer.close()
    return failed


async def load(port: int, request: bytes, seconds: float) -> dict:
    took: list = []
    begun = time.monotonic()
    clients = [client(port, request, begun + seconds, took) for _ in range(CLIENTS)]
    failed = sum(await asyncio.gather(*clients))
    elapsed, took = time.monotonic() - begun, sorted(took)
    at = lambda share: 1000 * took[min(len(took) - 1, int(len(took) * share))]
    return {"rate": len(took) / elapsed, "p50_ms": at(0.5), "p99_ms": at(0.99), "failed": failed}


def run(pipe, port: int, request: bytes, seconds: float) -> None:
    pipe.send(asyncio.run(load(port, request, seconds)))


def loaded(port: int, request: bytes, seconds: float) -> dict:
    """Loads a port from a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=run, args=(theirs, port, request, seconds))
    process.start()
    # A process that fails closes its end, so that reading does not wait for ever.
    theirs.close()
    found = ours.recv()
    process.join()
    return found


def request_of(call: cases.Call) -> bytes:
    body = json.dumps(call.body).encode()
    return HEAD.format(call.path, len(body)).encode() + body


def measure(case: cases.Case, rounds: int, seconds: float) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        running = served.Served(case, Path(folder))
        try:
            running.call(case.infer)
            own = int(running.processes()[0].environ()["PORT"])
            ports = {"straight": own, "weir": running.server.http_port}
            request = request_of(case.infer)
            for port in ports.values():
                loaded(port, request, 2)
            pairs = [{name: loaded(port, request, seconds) for name, port in ports.items()} for _ in range(rounds)]
        finally:
            running.stop()
    return {"server": case.name, "rounds": pairs}


def middle(point: dict, name: str, key: str) -> float:
    return statistics.median(pair[name][key] for pair in point["rounds"])


def row(point: dict) -> list:
    ratios = [pair["weir"]["rate"] / pair["straight"]["rate"] for pair in point["rounds"]]
    cells = [point["server"]]
    for key in ("rate", "p50_ms", "p99_ms"):
        cells += [report.number(middle(point, name, key)) for name in ("straight", "weir")]
    failed = sum(pair[name]["failed"] for pair in point["rounds"] for name in pair)
    ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
    return [*cells, ratio, str(failed)]


def text(result: dict) -> str:
    machine = result["machine"]
    head = ["server", "requests/s", "with Weir", "p50, ms", "with Weir", "p99, ms", "with Weir", "ratio of requests/s", "failed"]
    lines = [f"Machine: {machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}. {CLIENTS} clients."]
    lines += ["", report.table(head, [row(point) for point in result["servers"]])]
    lines += ["", *(f"{sentence}." for sentence in result["left_out"])] if result["left_out"] else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="", help="names with commas; the default is all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--dry", action="store_true", help="write no results")
    arguments = parser.parse_args()
    chosen = [case for case in cases.CASES if not arguments.servers or case.name in arguments.servers.split(",")]
    result = {"machine": record.machine(), "servers": [], "left_out": [case.missing() for case in chosen if case.missing()]}
    for case in chosen:
        if not case.missing():
            print(f"{case.name}: measuring", file=sys.stderr)
            result["servers"].append(measure(case, arguments.rounds, arguments.seconds))
    print(text(result))
    if not arguments.dry:
        RESULT.write_text(record.written(result))
        report.insert(PAGE, text(result), BEGIN)


if __name__ == "__main__":
    main()
