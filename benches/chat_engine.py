"""Compares engines that batch with and without Weir's gateway, and their replicas with those that their metrics suggest.

    python3 -B benches/chat_engine.py [--weir target/release/weir] [--seconds 20] [--only TEXT] [--dry]

The engines are processes of harness/chat_server.py. Each row has the answers per second of the same clients directly
and through Weir; the lengths of the answers are the same in both. Within a case, the engine is not restarted between
two numbers of clients. The last table has an engine for 16 requests at a time under `weir up` that gets requests at a
given rate: its replicas, and those that the engines' own metrics suggest, which are their requests divided by 16.
Writes benches/results/chat_engine.json and the tables of docs/decisions/010-limits-from-throughput.md. Run it on an
otherwise idle machine; it takes forty minutes.
"""

import argparse
import asyncio
import itertools
import json
import math
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness import chat_server, record, report
from harness.chat_clients import Lengths, Load, closed_loop, get, open_loop, run_for
from harness.paths import ROOT
from harness.servers import free_ports

RESULT = ROOT / "benches" / "results" / "chat_engine.json"
PAGE = ROOT / "docs" / "decisions" / "010-limits-from-throughput.md"
BEGIN = "<!-- measured: written by benches/chat_engine.py -->"
# The path of a chat tells the gateway that the server batches, and that of V2 does not.
CHAT, V2 = "/v1/chat/completions", "/v2/models/chat/infer"
BEHIND = "/serving/default/chat"


@dataclass(frozen=True)
class Case:
    """An engine, its clients, and what the gateway should reach."""

    name: str
    clients: tuple = (8, 64, 200, 1000)
    streams: tuple = (False, True)
    path: str = CHAT
    tokens: float = 336.0
    are_equal: bool = False
    width: int = 256
    knee: float = math.inf
    # Number of clients at which the engine is fastest; `None` if the speed is the same for all numbers.
    best: int | None = None
    # Seconds before the measurement; `None` stands for a third of the measurement.
    warm_up: float | None = None
    # Factor by which the lengths of the answers change at the end of the warm-up.
    noon: float = 1.0
    goal: float = 0.95
    # Maximum number of requests that the gateway may send to the engine at once; `None` if there is no maximum.
    most: int | None = None


CASES = [
    Case("log-normal lengths"),
    Case("equal lengths", are_equal=True),
    Case("one worker, 20 ms", clients=(8, 64), path=V2, tokens=8, are_equal=True, width=1, most=2),
    Case("collapses beyond 32", (64, 200), (False,), tokens=40, knee=32, best=32, warm_up=100, goal=0.9),
    Case("three times as long from noon on", (200,), warm_up=20, noon=3.0),
    Case("a third as long from noon on", (200,), tokens=1008, warm_up=40, noon=1 / 3),
]

# The table of replicas: the requests that an engine works on at once, and for each stage its requests per second and its
# seconds. Replicas that are no longer needed are kept for some time, so fewer requests take longer to show in their number.
PLACES = 16
STAGES = [(20.0, 60.0), (80.0, 90.0), (20.0, 240.0)]
MAX_REPLICAS = 10


def engine(port: str, *options) -> list[str]:
    return [sys.executable, "-B", chat_server.__file__, port, *map(str, options)]


def until_open(port: int) -> None:
    for _ in itertools.repeat(None, 1200):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


class Up:
    """A `weir up` with one service, as a context manager that stops it."""

    def __init__(self, weir: str, command: list[str], replicas: int = 1):
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        container = {"name": "kserve-container", "command": command}
        predictor = {"minReplicas": 1, "maxReplicas": replicas, "containers": [container]}
        kind = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
        service = {**kind, "metadata": {"name": "chat"}, "spec": {"predictor": predictor}}
        (folder / "chat.yaml").write_text(json.dumps(service))
        self.port, self.admin = free_ports(2)
        options = ["--port", str(self.port), "--admin-port", str(self.admin), "--state-dir", str(folder / "state")]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen([weir, "up", "-f", str(folder / "chat.yaml"), *options], stdout=log, stderr=log)

    def __enter__(self) -> "Up":
        for _ in itertools.repeat(None, 600):
            try:
                asyncio.run(get(self.port, BEHIND + "/most"))
                return self
            except (OSError, RuntimeError, asyncio.IncompleteReadError):
                time.sleep(0.1)
        self.__exit__()
        raise TimeoutError("the service does not answer")

    def __exit__(self, *_) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.folder.cleanup()

    async def replicas(self) -> float:
        """Returns the number of replicas that the autoscaler wants."""
        lines = (await get(self.admin, "/metrics")).decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("weir_autoscaler_desired_replicas{"))


async def measured(case: Case, port: int, prefix: str, clients: int, stream: bool, seconds: float) -> dict:
    """Returns the answers per second of this many clients, their latencies, and the most requests in the engine."""
    warm_up = seconds / 3 if case.warm_up is None else case.warm_up
    noon = time.monotonic() + warm_up
    factor = lambda: case.noon if time.monotonic() >= noon else 1.0
    load = Load(port, prefix + case.path, Lengths(case.tokens, case.are_equal), stream, factor)
    await run_for(warm_up + seconds, *(closed_loop(load) for _ in range(clients)))
    return {**load.rate(noon, noon + seconds), "most": json.loads(await get(port, prefix + "/most"))}


def point(case: Case, direct: int, through: int, clients: int, stream: bool, seconds: float) -> dict:
    run = lambda *arguments: asyncio.run(measured(case, *arguments, stream, seconds))
    found = {"directly": run(direct, "", case.best or clients), "weir": run(through, BEHIND, clients)}
    share = found["weir"]["rate"] / found["directly"]["rate"]
    is_met = share >= case.goal and (case.most is None or found["weir"]["most"] <= case.most)
    return {"case": case.name, "clients": clients, "stream": stream, "share": share, "met": is_met, **found}


def compare(case: Case, weir: str, seconds: float) -> list[dict]:
    options = ["--width", case.width, "--knee", case.knee]
    direct = free_ports(1)[0]
    alone = subprocess.Popen(engine(str(direct), *options))
    try:
        until_open(direct)
        with Up(weir, engine("$(PORT)", *options)) as up:
            kinds = itertools.product(case.streams, case.clients)
            return [shown(point(case, direct, up.port, clients, stream, seconds)) for stream, clients in kinds]
    finally:
        alone.terminate()
        alone.wait(10)


def shown(found: dict) -> dict:
    print(json.dumps(found), file=sys.stderr)
    return found


async def requests_in(folder: Path) -> float:
    """Returns the requests that all engines have, by their own metrics."""
    pages = await asyncio.gather(*(get(int(file.name), "/metrics") for file in folder.iterdir()), return_exceptions=True)
    lines = b"".join(page for page in pages if isinstance(page, bytes)).decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


async def follow(up: Up, folder: Path) -> list[dict]:
    begun, samples = time.monotonic(), []
    ends = list(itertools.accumulate(seconds for _, seconds in STAGES))
    stage = lambda: min(sum(end <= time.monotonic() - begun for end in ends), len(ends) - 1)

    async def watch() -> None:
        while True:
            samples.append((time.monotonic() - begun, await up.replicas(), await requests_in(folder)))
            await asyncio.sleep(1)

    load = Load(up.port, BEHIND + CHAT, Lengths(336.0))
    await run_for(ends[-1], open_loop(load, lambda: STAGES[stage()][0]), watch())
    return [stage_of(samples, rate, end, seconds) for (rate, seconds), end in zip(STAGES, ends)]


def stage_of(samples: list, rate: float, end: float, seconds: float) -> dict:
    """Returns the mean numbers of the last third of a stage."""
    last = [sample[1:] for sample in samples if end - seconds / 3 <= sample[0] < end]
    replicas, requests = (statistics.mean(values) for values in zip(*last))
    asked = max(1.0, requests / PLACES)
    return shown({"rate": rate, "replicas": replicas, "asked": asked, "met": abs(replicas - asked) <= 1.0})


def autoscale(weir: str) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        command = engine("$(PORT)", "--width", PLACES, "--seen", folder)
        with Up(weir, command, MAX_REPLICAS) as up:
            return asyncio.run(follow(up, Path(folder)))


def verdict(found: dict) -> str:
    return "yes" if found["met"] else "no"


def row(found: dict) -> list[str]:
    direct, weir = found["directly"], found["weir"]
    times = [f"{direct[key]:.2f}, {weir[key]:.2f}" for key in ("p50", "p99")]
    cells = [found["case"], str(found["clients"]), "streamed" if found["stream"] else "whole"]
    return [*cells, f"{direct['rate']:.1f}", f"{weir['rate']:.1f}", f"{found['share']:.3f}", verdict(found), *times, str(weir["most"])]


def text(result: dict) -> str:
    machine = result["machine"]
    head = ["engine", "clients", "answers", "directly /s", "through Weir /s", "share", "goal met", "p50, s", "p99, s", "at once"]
    parts = [f"Machine: {machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}."]
    if result["shares"]:
        parts.append(report.table(head, [row(found) for found in result["shares"]]))
    if result["replicas"]:
        cells = lambda found: [f"{found[key]:.1f}" for key in ("rate", "asked", "replicas")]
        head = ["requests per second", "replicas that its metrics ask for", "replicas", "within 1"]
        parts.append(report.table(head, [[*cells(found), verdict(found)] for found in result["replicas"]]))
    return "\n\n".join(parts)


def with_kept(result: dict, measured: set) -> dict:
    """Returns the result with the rows of the last one for the cases that were not measured now."""
    last = json.loads(RESULT.read_text()) if RESULT.exists() else {"shares": [], "replicas": []}
    kept = [found for found in last["shares"] if found["case"] not in measured]
    order = [case.name for case in CASES]
    shares = sorted(kept + result["shares"], key=lambda found: order.index(found["case"]))
    return {**result, "shares": shares, "replicas": result["replicas"] or last["replicas"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="target/release/weir", help="the program weir")
    parser.add_argument("--seconds", type=float, default=20, help="time of each measurement")
    parser.add_argument("--only", default="", help="cases whose names contain this text; `autoscaler` is one")
    parser.add_argument("--clients", type=int, nargs="+", help="only these numbers of clients")
    parser.add_argument("--dry", action="store_true", help="write no results")
    arguments = parser.parse_args()
    chosen = [case for case in CASES if arguments.only in case.name]
    if arguments.clients:
        chosen = [Case(**{**vars(case), "clients": tuple(arguments.clients)}) for case in chosen]
    result = {"machine": record.machine(), "shares": [], "replicas": []}
    for case in chosen:
        result["shares"] += compare(case, arguments.weir, arguments.seconds)
    if arguments.only in "autoscaler":
        result["replicas"] = autoscale(arguments.weir)
    is_met = all(found["met"] for found in result["shares"] + result["replicas"])
    result = with_kept(result, {case.name for case in chosen})
    print(text(result))
    if not arguments.dry:
        RESULT.write_text(record.written(result))
        report.insert(PAGE, text(result), BEGIN)
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
