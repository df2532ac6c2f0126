"""Runs the load generator, and the loop around libtorch without a server."""

import json
import subprocess

from .paths import LOAD, MODELS, RAW_LOOP, TENSORS
from .servers import CLIENT_CORE, SERVER_CORE, Server

# Maximum warm-up in seconds; shorter measurements have a warm-up of half their own time.
WARM_UP = 2.0


def manifest() -> dict:
    return json.loads((MODELS / "models.json").read_text())


def tensor(model: str, entry: dict, dims: list) -> str:
    shape = ",".join(str(dim) for dim in dims)
    return f"{entry['name']}:{entry['datatype']}:{shape}={TENSORS / model / entry['name']}"


def load(server: Server, model: str, protocol: str, connections: int, seconds: float, rate: float = 0.0) -> dict:
    """Takes one measurement and checks the responses. `rate` makes it an open loop. Returns a dict with `failed` if the
    measurement failed."""
    port = server.grpc if protocol == "grpc" else server.http
    known = manifest()[model]
    command = ["taskset", "-c", str(CLIENT_CORE), str(LOAD), "--address", f"127.0.0.1:{port}", "--model", model,
               "--protocol", protocol, "--connections", str(connections), "--pid", str(server.process.pid),
               "--warm-up", str(min(seconds / 2, WARM_UP)), "--duration", str(seconds)]
    for entry in known["inputs"]:
        command += ["--input", tensor(model, entry, entry["shape"])]
    for entry in known["outputs"]:
        command += ["--expect", tensor(model, entry, entry["shape"])]
    if rate:
        command += ["--rate", str(rate)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"failed": done.stderr.strip()}
    report = json.loads(done.stdout)
    if report["errors"]:
        report["failed"] = f"{report['errors']} errors, the first: {report['first_error']}"
    return {**report, "memory_mb": server.memory_mb()}


def raw_loop(model: str, batch: int, seconds: float) -> dict:
    """Runs libtorch alone on the core of the servers."""
    inputs = [tensor(model, entry, entry["shape"][1:]) for entry in manifest()[model]["inputs"]]
    path = MODELS / "repository" / model / "1" / "model.pt"
    command = ["taskset", "-c", str(SERVER_CORE), str(RAW_LOOP), str(seconds), str(path), str(batch), *inputs]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
