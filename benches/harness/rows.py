"""Takes measurements point by point. A point is a setting, and has one report per round."""

import contextlib
import statistics

from . import client, servers
from .paths import DIGITS, RAW_LOOP

# Batch sizes of the loop without a server; the best one is the limit for servers.
BATCHES = (1, 8, 32)
# Fraction of a server's own peak at which latency is measured.
OPEN_SHARE = 0.7
# An open loop uses either as many connections as gave the server its peak, or a crowd: many more connections than have
# a request in flight.
AT_PEAK = "peak"
CROWD = 256

# Factor by which models whose batches of 32 take a second or more are measured longer. Otherwise the few batches that
# end within the window would determine the result.
LONGER = {"resnet18": 4, "bert": 4}


def say(text: str) -> None:
    print(text, flush=True)


def rotated(items: list, by: int) -> list:
    by %= len(items)
    return items[by:] + items[:by]


def raw(plan) -> list:
    """Measures the loop without a server, per model and batch size."""
    points = []
    for model in plan.models if RAW_LOOP.exists() else []:
        for batch in BATCHES:
            rounds = [client.raw_loop(model, batch, plan.seconds) for _ in range(plan.rounds)]
            points.append({"model": model, "batch": batch, "rounds": rounds})
            say(f"raw loop  {model:9} batch {batch:3}  {middle(points[-1], 'samples_per_s'):9.0f}/s")
    return points


class Loop:
    """The loop without a server at its best batch size, measured in the servers' rounds as if it were a server: when a
    shared host is slow for minutes, it is slow for all of them."""

    setting = "loop"

    def __init__(self, batch: int):
        self.batch = batch


def loops(alone: list, model: str) -> list:
    """Returns the loop to measure together with a model's servers; none if it was not measured alone before, so that
    its best batch size is unknown."""
    points = [point for point in alone if point["model"] == model]
    best = max(points, key=lambda point: middle(point, "samples_per_s"), default=None)
    return [Loop(best["batch"])] if best else []


def interleaved(plan, running: list, point: dict, measure) -> list:
    """Measures the same point on every server in turn, round after round."""
    reports = {server.setting: [] for server in running}
    seconds = plan.seconds * LONGER.get(point["model"], 1)
    for number in range(plan.rounds):
        for server in rotated(running, number):
            reports[server.setting].append(measure(server, point, seconds))
    made = [{**point, "server": name, "rounds": rounds} for name, rounds in reports.items()]
    for each in made:
        say(line(each))
    return made


def closed_loop(server, point: dict, seconds: float) -> dict:
    if isinstance(server, Loop):
        return client.raw_loop(point["model"], server.batch, seconds)
    return client.load(server, point["model"], point["protocol"], point["connections"], seconds)


def open_loop(at_peak: dict):
    """Returns a function that measures a server's peak, with the connections that gave it the most, and then its latency
    at a share of that peak.

    A shared host can be slower by a third or more for minutes: a peak of an earlier minute would overload the servers
    of this one, and the fastest server most.
    """
    def measured(server, point: dict, seconds: float) -> dict:
        peak = closed_loop(server, {**point, "connections": at_peak[server.setting]}, seconds)
        if "failed" in peak:
            return peak
        rate = OPEN_SHARE * peak["requests_per_s"]
        over = at_peak[server.setting] if point["connections"] == AT_PEAK else point["connections"]
        report = client.load(server, point["model"], point["protocol"], over, seconds, rate)
        return {**report, "rate": rate}
    return measured


def line(point: dict) -> str:
    where = f"{point['model']:9} {point['protocol']:11} {point['connections']:4}  {point['server']:22}"
    failures = [report["failed"] for report in point["rounds"] if "failed" in report]
    if failures:
        return f"{where} FAILED: {failures[0]}"
    if point["server"] == Loop.setting:
        return f"{where} {middle(point, 'samples_per_s'):8.0f}/s  cpu {middle(point, 'cpu_us_per_sample'):7.1f} us"
    return (f"{where} {middle(point, 'requests_per_s'):8.0f}/s  p50 {middle(point, 'latency_us', 'p50'):8.0f}  "
            f"p99 {middle(point, 'latency_us', 'p99'):8.0f} us  "
            f"cpu {middle(point, 'server', 'cpu_us_per_request'):7.1f} us  "
            f"client {middle(point, 'client_cpu_us'):5.1f} us  others {middle(point, 'other_cores_busy'):.2f}")


def middle(point: dict, *keys: str) -> float:
    """Returns the median over a point's rounds."""
    return statistics.median(values(point, *keys))


def values(point: dict, *keys: str) -> list:
    """Returns one number per measured round."""
    found = []
    for report in point["rounds"]:
        if "failed" in report:
            continue
        for key in keys:
            report = report[key]
        # The CPU time per request is missing if no request ended.
        if report is not None:
            found.append(report)
    return found or [float("nan")]


def loads(plan, alone: list) -> dict:
    """Measures closed loops over connections and protocols, each together with the loop without a server if `alone`
    contains its best batch size; then open loops at a share of each server's peak."""
    made = {"closed": [], "beside": [], "open": []}
    for model in plan.models:
        with contextlib.ExitStack() as stack:
            running = [stack.enter_context(servers.Server(name, servers.repository(name, model)))
                       for name in servers.available()]
            for server in running:
                server.wait()
            for protocol in plan.protocols:
                here = []
                for connections in plan.connections:
                    point = {"model": model, "protocol": protocol, "connections": connections}
                    # A single request at a time is not compared with the loop, which runs full batches.
                    beside = loops(alone, model) if connections > 1 else []
                    here += interleaved(plan, [*running, *beside], point, closed_loop)
                made["beside"] += [point for point in here if point["server"] == Loop.setting]
                here = [point for point in here if point["server"] != Loop.setting]
                made["closed"] += here
                for over in plan.open_over if protocol in plan.open_protocols else []:
                    point = {"model": model, "protocol": protocol, "connections": over}
                    made["open"] += interleaved(plan, running, point, open_loop(connections_at_peak(here)))
    return made


def connections_at_peak(points: list) -> dict:
    """Returns the number of connections with the most requests per second, by server."""
    best = {}
    for point in points:
        if point["server"] not in best or middle(point, "requests_per_s") > middle(best[point["server"]], "requests_per_s"):
            best[point["server"]] = point
    return {server: point["connections"] for server, point in best.items()}


def starts(plan) -> list:
    """Measures the seconds from start to ready with the digits example, with the files in the page cache."""
    names = [name for name in servers.available() if name in ("weir", "triton, delay 0")]
    points = {name: [] for name in names}
    # The first round reads the files, and is not recorded.
    for number in range(plan.rounds + 1):
        for name in rotated(names, number):
            with servers.Server(name, DIGITS) as server:
                seconds = server.wait()
                memory = server.memory_mb()
            if number > 0:
                points[name].append({"seconds": seconds, "memory_mb": memory})
    made = [{"server": name, "rounds": rounds} for name, rounds in points.items()]
    for point in made:
        say(f"start to ready, digits  {point['server']:22} {middle(point, 'seconds'):6.3f} s")
    return made
