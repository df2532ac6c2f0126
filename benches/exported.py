#!/usr/bin/env python3
"""Compares exported programs with TorchScript of the same nets and with PyTorch itself.

    pip install torch==2.11.0 torchvision==0.26.0 && python benches/exported.py [--rounds 7] [--seconds 1] [--check]

For each net: the time of a load, and the time of a run on one thread, for one row and for the largest batch. The small
nets are those of tests/models/exported_zoo.py, and the images of the large ones have 224 by 224 pixels. Times in the
server are its own statistics of inference, without HTTP. The formats take turns in each round, and the table has the
median of the rounds. Writes benches/results/exported.json and the table of docs/exported-models.md; --check writes
neither.
"""

import argparse
import functools
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import torch

from harness.paths import EXPORTED_PAGE, EXPORTED_RESULTS, ROOT, WEIR
from harness.record import machine, written
from harness.servers import free_ports

sys.path.insert(0, str(ROOT / "tests" / "models"))

import exported  # noqa: E402
import exported_zoo  # noqa: E402

# Small nets of different kinds: convolutions, transformers, a recurrent net, embeddings.
SMALL = ["resnet", "mobilenet_v3", "vit", "bert", "gpt", "conformer", "gru", "dlrm"]
# Nets of torchvision in their real size, by their names in the table: a small net is named mobilenet_v2.
LARGE = {
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "mobilenet_v2_224": "mobilenet_v2",
    "efficientnet_b0": "efficientnet_b0",
    "vit_b_32": "vit_b_32",
}
ROWS = (1, exported.MOST)
FORMATS = {"exported": "model.pt2", "torchscript": "model.pt"}
TYPES = {torch.float32: "FP32", torch.int64: "INT64", torch.int32: "INT32", torch.bool: "BOOL"}
READY_WITHIN = 120.0
BEGIN, END = "<!-- measured: written by benches/exported.py -->", "<!-- end of what benches/exported.py writes -->"


@functools.cache
def net_of(name: str) -> exported.Model:
    if name in exported_zoo.NETS:
        return exported_zoo.NETS[name]
    import torchvision

    module = torchvision.models.get_model(LARGE.get(name, name), weights=None)
    return exported.Model(module, exported.floats(3, 224, 224))


def make(repository: Path, name: str) -> list[tuple]:
    """Writes a net in both formats. Returns its inputs for each number of rows."""
    net = net_of(name)
    module, example = net.module.eval(), net.arguments(2)
    program = torch.export.export(module, example, dynamic_shapes=exported.shapes(net, example))
    with torch.no_grad():
        script = torch.jit.trace(module, example, check_trace=False, strict=False)
    for form, file in FORMATS.items():
        (repository / f"{name}-{form}" / "1").mkdir(parents=True)
        path = repository / f"{name}-{form}" / "1" / file
        torch.export.save(program, path) if form == "exported" else script.save(str(path))
    return [net.arguments(rows) for rows in ROWS]


class Server:
    """A `weir-runtime` with one thread per model, as a context manager."""

    def __init__(self, binary: Path, repository: Path, log: Path):
        (self.port, grpc, metrics), self.log = free_ports(3), log
        command = [str(binary), "--model-repository", str(repository), "--device", "cpu", "--http-port", str(self.port)]
        command += ["--grpc-port", str(grpc), "--metrics-port", str(metrics), "--exit-on-error=false"]
        self.process = subprocess.Popen(command, stdout=log.open("wb"), stderr=subprocess.STDOUT)

    def __enter__(self) -> "Server":
        begun = time.monotonic()
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() - begun > READY_WITHIN:
                raise SystemExit(f"the server did not become ready:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def is_ready(self) -> bool:
        try:
            return self.call("/v2/health/ready").status == 200
        except OSError:
            return False

    def call(self, path: str, body: bytes | None = None, headers: dict | None = None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, headers or {})
        return urllib.request.urlopen(request, timeout=60)

    def load_ms(self, model: str) -> int:
        found = re.search(rf'ready model="{re.escape(model)}".* ms=(\d+)', self.log.read_text())
        if found is None:
            raise SystemExit(f"{model} is not served:\n{self.log.read_text()[-2000:]}")
        return int(found[1])

    def infer_ns(self, model: str) -> tuple[int, int]:
        """Returns the time of all runs so far, and their number."""
        stats = json.load(self.call(f"/v2/models/{model}/stats"))["model_stats"][0]
        batches = stats["batch_stats"]
        return sum(one["compute_infer"]["ns"] for one in batches), sum(one["compute_infer"]["count"] for one in batches)

    def run_us(self, model: str, inputs: tuple, seconds: float) -> float:
        names = [row["name"] for row in json.load(self.call(f"/v2/models/{model}"))["inputs"]]
        body, headers = request_of(names, inputs)
        before = self.infer_ns(model)
        repeat(lambda: self.call(f"/v2/models/{model}/infer", body, headers).read(), seconds)
        after = self.infer_ns(model)
        return (after[0] - before[0]) / max(after[1] - before[1], 1) / 1000


def request_of(names: list[str], inputs: tuple) -> tuple[bytes, dict]:
    rows, blobs = [], []
    for name, tensor in zip(names, inputs):
        blobs.append(tensor.contiguous().numpy().tobytes())
        size = {"binary_data_size": len(blobs[-1])}
        rows.append({"name": name, "datatype": TYPES[tensor.dtype], "shape": list(tensor.shape), "parameters": size})
    header = json.dumps({"inputs": rows, "parameters": {"binary_data_output": True}}).encode()
    return header + b"".join(blobs), {"Inference-Header-Content-Length": str(len(header))}


def repeat(run: Callable[[], object], seconds: float) -> float:
    """Runs at least twice and for this long. Returns the time of a run."""
    begun, runs = time.perf_counter(), 0
    while runs < 2 or time.perf_counter() - begun < seconds:
        run()
        runs += 1
    return (time.perf_counter() - begun) / runs


def python_us(name: str, inputs: tuple, seconds: float) -> float:
    module = net_of(name).module.eval()
    with torch.inference_mode():
        module(*inputs)
        return repeat(lambda: module(*inputs), seconds) * 1e6


def measure(server: Server, inputs: dict[str, list[tuple]], options: argparse.Namespace) -> list[dict]:
    """Returns a point for each net and number of rows; the formats take turns in each round."""
    seen: dict[tuple, list[float]] = {}
    for _ in range(options.rounds):
        for name, by_rows in inputs.items():
            for rows, values in zip(ROWS, by_rows):
                for form in FORMATS:
                    time_us = server.run_us(f"{name}-{form}", values, options.seconds)
                    seen.setdefault((name, rows, form), []).append(time_us)
                seen.setdefault((name, rows, "python"), []).append(python_us(name, values, options.seconds))
    return [
        {"net": name, "rows": rows}
        | {f"{form}_us": statistics.median(seen[name, rows, form]) for form in [*FORMATS, "python"]}
        | {f"{form}_load_ms": server.load_ms(f"{name}-{form}") for form in FORMATS}
        for name in inputs
        for rows in ROWS
    ]


def table(points: list[dict]) -> str:
    lines = [
        "| net | rows | load, exported / TorchScript, ms | run, exported, µs | TorchScript | Python | ratio of runs |",
        "|---|---|---|---|---|---|---|",
    ]
    for point in points:
        ratio = point["exported_us"] / point["torchscript_us"]
        loads = f"{point['exported_load_ms']} / {point['torchscript_load_ms']}"
        times = " | ".join(f"{point[key]:.0f}" for key in ("exported_us", "torchscript_us", "python_us"))
        lines.append(f"| {point['net']} | {point['rows']} | {loads} | {times} | {ratio:.2f} |")
    return "\n".join(lines)


def write(points: list[dict], options: argparse.Namespace) -> None:
    settings = {"rounds": options.rounds, "seconds": options.seconds, "torch": torch.__version__}
    EXPORTED_RESULTS.write_text(written({"machine": machine(), "settings": settings, "points": points}))
    before, rest = EXPORTED_PAGE.read_text().split(BEGIN)
    EXPORTED_PAGE.write_text(f"{before}{BEGIN}\n\n{table(points)}\n\n{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds, of which the table has the median")
    parser.add_argument("--seconds", type=float, default=1.0, help="time of the runs of each format in a round")
    parser.add_argument("--nets", nargs="+", default=[*SMALL, *LARGE], metavar="NET")
    parser.add_argument("--check", action="store_true", help="print the table only")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    with tempfile.TemporaryDirectory() as temporary:
        repository = Path(temporary) / "models"
        inputs = {name: make(repository, name) for name in options.nets}
        binary = Path(os.environ.get("WEIR_RUNTIME", WEIR))
        with Server(binary, repository, Path(temporary) / "log") as server:
            points = measure(server, inputs, options)
    print(table(points))
    if not options.check:
        write(points, options)


if __name__ == "__main__":
    main()
