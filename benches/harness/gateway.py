"""Measures gateways, point by point."""

import json
import random
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from . import proxies
from .rows import middle, rotated, say, values
from .servers import CLIENT_CORE

SIZES = {"1k": 1 << 10, "64k": 64 << 10, "1m": 1 << 20}
PROTOCOLS = {"http": "http-binary", "grpc": "grpc"}
ROWS = [f"{protocol}-{size}" for protocol in PROTOCOLS for size in SIZES]
# Bytes of a response, which are the last bytes of its request.
ANSWER = 1024
# Fraction of Weir's peak at which latency is measured.
OPEN_SHARE = 0.5
# Memory: number of services, and of idle connections.
SERVICES = 1000
IDLE_CONNECTIONS = 1000
# Seconds after which periodic work, such as the reports of every second, has run.
SETTLE = 5.0
# A new service starts once and then sleeps. This is the number of services declared per second...
SERVICES_PER_S = 25
# ...and this the maximum time in seconds until the last of them sleeps.
ASLEEP_WITHIN = 300.0

SLEEPER = """---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: sleeper-{number}
  annotations:
    autoscaling.knative.dev/window: 6s
spec:
  predictor:
    minReplicas: 0
    containers:
      - name: kserve-container
        command: [{upstream}, --http-port, $(PORT), --grpc-port, $(GRPC_PORT)]
"""


class Plan(NamedTuple):
    """Rows to measure, their duration, number of rounds, and the programs."""

    kinds: list
    rows: list
    servers: list
    rounds: int
    seconds: float
    connections: int
    weir: Path
    load: Path
    upstream: Path
    folder: Path


def tensors(folder: Path) -> None:
    """Writes an FP32 file of each size, and one with the last bytes, which are the response."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    for name, size in SIZES.items():
        data = struct.pack(f"<{size // 4}f", *(rng.uniform(-1, 1) for _ in range(size // 4)))
        (folder / name).write_bytes(data)
        (folder / f"{name}-end").write_bytes(data[-ANSWER:])


def load(plan: Plan, proxy: proxies.Proxy, row: str, rate: float) -> dict:
    """Takes one measurement and compares the responses. Returns a dict with `failed` if that was not possible."""
    kind, size = row.split("-")
    port = proxy.grpc if kind == "grpc" else proxy.http
    tensor = plan.folder / "tensors" / size
    command = ["taskset", "-c", str(CLIENT_CORE), str(plan.load), "--address", f"127.0.0.1:{port}",
               "--model", proxies.MODEL, "--protocol", PROTOCOLS[kind], "--connections", str(plan.connections),
               "--pid", str(proxy.pid), "--warm-up", str(plan.seconds / 4), "--duration", str(plan.seconds),
               "--input", f"INPUT0:FP32:1,{SIZES[size] // 4}={tensor}",
               "--expect", f"OUTPUT0:FP32:1,{ANSWER // 4}={tensor}-end"]
    if rate:
        # The upstream shares the core of the client, which a polling client would occupy.
        command += ["--rate", str(rate), "--wait", "timer"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"failed": done.stderr.strip()}
    report = json.loads(done.stdout)
    if report["errors"]:
        report["failed"] = f"{report['errors']} errors, the first: {report['first_error']}"
    return report


def interleaved(plan: Plan, running: dict, row: str, rate: float = 0.0) -> list:
    """Measures the same row through every proxy in turn, round after round."""
    rounds = {name: [] for name in running}
    for number in range(plan.rounds):
        for name in rotated(list(running), number):
            rounds[name].append(load(plan, running[name], row, rate))
    points = [{"row": row, "server": name, "rate": rate, "rounds": reports} for name, reports in rounds.items()]
    for point in points:
        say(line(point))
    return points


def loads(plan: Plan) -> tuple:
    """Measures a closed loop for each row, and an open loop at half of Weir's peak."""
    closed, open_ = [], []
    tensors(plan.folder / "tensors")
    with proxies.all_of(plan.servers, plan.weir, plan.upstream, plan.folder / "run") as running:
        for row in plan.rows:
            points = interleaved(plan, running, row)
            closed += points
            if "open" in plan.kinds:
                peak = next(middle(point, "requests_per_s") for point in points if point["server"] == "weir")
                open_ += interleaved(plan, running, row, OPEN_SHARE * peak)
    return closed, open_


def line(point: dict) -> str:
    where = f"{point['row']:9} {point['server']:8} {'open  ' if point['rate'] else 'closed'}"
    failures = [report["failed"] for report in point["rounds"] if "failed" in report]
    if failures:
        return f"{where} FAILED: {failures[0]}"
    cpu = values(point, "server", "cpu_us_per_request")
    return (f"{where} cpu {middle(point, 'server', 'cpu_us_per_request'):7.1f} us ({min(cpu):.1f}-{max(cpu):.1f})  "
            f"{middle(point, 'requests_per_s'):7.0f}/s  busy {middle(point, 'server', 'cpu_share'):.2f}  "
            f"p50 {middle(point, 'latency_us', 'p50'):6.0f}  p99 {middle(point, 'latency_us', 'p99'):6.0f} us  "
            f"client {middle(point, 'client_cpu_us'):5.1f} us  others {middle(point, 'other_cores_busy'):.2f}")


def memory(plan: Plan) -> list:
    """Measures resident memory with services only, and with idle connections."""
    rounds = []
    for _ in range(plan.rounds):
        folder = proxies.fresh(plan.folder / "memory")
        services = folder / "services"
        services.mkdir()
        declare(plan, services, 0)
        # Starting a thousand processes takes both cores.
        with proxies.weir(plan.weir, folder, services, proxies.BOTH_CORES) as proxy:
            for first in range(SERVICES_PER_S, SERVICES, SERVICES_PER_S):
                time.sleep(1.0)
                declare(plan, services, first)
            wait_asleep(proxy)
            alone = settled(proxy)
            connections = [idle_connection(proxy.http) for _ in range(IDLE_CONNECTIONS)]
            rounds.append({"services": alone, "connections": settled(proxy)})
            for connection in connections:
                connection.close()
    say(f"memory: with {SERVICES} services {middle({'rounds': rounds}, 'services'):.1f} MiB, "
        f"and {IDLE_CONNECTIONS} connections {middle({'rounds': rounds}, 'connections'):.1f} MiB")
    return [{"server": "weir", "rounds": rounds}]


def declare(plan: Plan, folder: Path, first: int) -> None:
    numbers = range(first, first + SERVICES_PER_S)
    texts = [SLEEPER.format(number=number, upstream=plan.upstream) for number in numbers]
    (folder / f"{first}.yaml").write_text("".join(texts))


def wait_asleep(proxy: proxies.Proxy) -> None:
    begun = time.monotonic()
    while proxies.children(proxy.pid):
        if time.monotonic() - begun > ASLEEP_WITHIN:
            raise SystemExit(f"services still run after {ASLEEP_WITHIN:.0f} s")
        time.sleep(0.5)


def settled(proxy: proxies.Proxy) -> float:
    time.sleep(SETTLE)
    return proxy.memory_mib()


def idle_connection(port: int) -> socket.socket:
    """Opens a connection, sends one request and keeps it idle."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    return connection
