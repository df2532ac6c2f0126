#!/usr/bin/env python3
"""Measures weir-runtime on a GPU beside loops of PyTorch over the same models.

    make bench-gpu                    on a machine with a GPU: builds, measures, writes the results
    make bench-gpu PACK=folder        on any machine: builds what a machine with a GPU needs, and packs it into the folder
    python3 folder/gpu.py             on that machine: tests, measures, and writes gpu.json and gpu.md into the folder

PyTorch must have the version of libtorch that the programs were built against, with CUDA. Takes about six minutes.
Writes benches/results/gpu.json and the table of docs/performance.md. Without a GPU it says so and ends.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
IS_PACKED = (HERE / "weir-runtime").exists()
ROOT = HERE.parent
BEGIN, END = "<!-- measured: written by benches/gpu.py -->", "<!-- end of what benches/gpu.py writes -->"
CONNECTIONS = (1, 8, 32, 128)
# Processes of the load generator from 8 connections on: one thread would be the limit.
CLIENTS = 4
READY_WITHIN, ENDS_WITHIN = 150.0, 60.0
PROGRAMS = ("weir-runtime", "load", "gpu-test")
# The folders of the tests' models in the tree, by their names in a packed folder.
MODELS_OF_TESTS = {"models": Path("runtime/torch/tests/models"), "exported": Path("tests/models/exported")}


def card() -> tuple[str | None, str]:
    """Returns the name of the first GPU, or the reason why none can be used."""
    try:
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        names = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split("\n")
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"nvidia-smi does not answer: {error}"
    try:
        import torch
    except ImportError:
        return None, f"{sys.executable} has no PyTorch"
    return (names[0], "") if torch.cuda.is_available() else (None, "PyTorch finds no CUDA device")


def build() -> dict[str, Path]:
    """Builds the programs, and returns their paths by name."""
    cargo = os.environ.get("CARGO", "cargo")
    run = lambda *arguments, **options: subprocess.run([cargo, *arguments], cwd=ROOT, check=True, **options)  # noqa: E731
    run("build", "--release", "-p", "weir-runtime-torch", "-p", "weir-benches")
    tests = ["test", "--release", "-p", "weir-runtime-torch", "--test", "gpu", "--no-run", "--message-format=json"]
    messages = map(json.loads, run(*tests, stdout=subprocess.PIPE, text=True).stdout.splitlines())
    built = [each["executable"] for each in messages if each.get("executable") and each["target"]["name"] == "gpu"]
    release = ROOT / "target" / "release"
    return {"weir-runtime": release / "weir-runtime", "load": release / "load", "gpu-test": Path(built[-1])}


def pack(folder: Path) -> None:
    """Copies everything that a machine with a GPU needs into the folder."""
    (folder / "harness").mkdir(parents=True, exist_ok=True)
    for name, path in build().items():
        shutil.copy2(path, folder / name)
        subprocess.run(["strip", str(folder / name)], check=False)
    shutil.copy2(__file__, folder / "gpu.py")
    for name in ("__init__.py", "gpu_nets.py", "record.py", "paths.py", "servers.py"):
        shutil.copy2(HERE / "harness" / name, folder / "harness" / name)
    for name, path in MODELS_OF_TESTS.items():
        shutil.copytree(ROOT / path, folder / name, dirs_exist_ok=True)
    # The tests look for their models where the tree that built them has them.
    (folder / "tree").write_text(f"{ROOT}\n")
    print(f"packed into {folder}; on a machine with a card: python3 gpu.py")


def environment() -> dict[str, str]:
    """Returns an environment in which the programs find the libtorch of PyTorch."""
    import torch

    return os.environ | {"LD_LIBRARY_PATH": str(Path(torch.__file__).parent / "lib")}


def test(programs: dict[str, Path]) -> bool:
    """Runs tests/gpu.rs; returns True if all tests passed."""
    if IS_PACKED:
        tree = Path((HERE / "tree").read_text().strip())
        for name, path in MODELS_OF_TESTS.items():
            if not (tree / path).exists():
                shutil.copytree(HERE / name, tree / path)
    done = subprocess.run([str(programs["gpu-test"]), "--test-threads=1"], env=environment(), timeout=400, check=False)
    return done.returncode == 0


class Server:
    """A weir-runtime on the GPU with all models, as a context manager."""

    def __init__(self, program: Path, repository: Path, log: Path):
        from harness.servers import free_ports

        (self.http, self.grpc, self.metrics), self.log = free_ports(3), log
        ports = ["--http-port", self.http, "--grpc-port", self.grpc, "--metrics-port", self.metrics]
        command = [str(program), "--model-repository", str(repository), "--device", "cuda", *map(str, ports)]
        self.process = subprocess.Popen(command, env=environment(), stdout=log.open("wb"), stderr=subprocess.STDOUT)

    def __enter__(self) -> "Server":
        begun = time.monotonic()
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() - begun > READY_WITHIN:
                self.process.kill()
                raise SystemExit(f"weir-runtime did not become ready:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(ENDS_WITHIN)

    def read(self, port: int, path: str) -> str:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20).read().decode()

    def is_ready(self) -> bool:
        try:
            return self.read(self.http, "/v2/health/ready") is not None
        except OSError:
            return False

    def memory(self) -> list[dict]:
        """Returns the series about the memory of models and GPUs."""
        lines = self.read(self.metrics, "/metrics").splitlines()
        wanted = ("weir_runtime_model_memory_bytes", "weir_runtime_gpu_", "nv_gpu_memory_used_bytes")
        series = [line.rsplit(" ", 1) for line in lines if line.startswith(wanted)]
        return [{"series": name, "bytes": int(float(value))} for name, value in series]


def used_by(pid: int) -> int:
    """Returns the device memory of a process in MiB, 0 if the driver does not show it (as in some containers)."""
    command = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    rows = [line.split(",") for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines()]
    return sum(int(row[1]) for row in rows if len(row) == 2 and row[0].strip() == str(pid) and row[1].strip().isdigit())


def memory_of_loops(folder: Path) -> int:
    """Returns the device memory in MiB of a process that runs only the loops with the largest batch."""
    here = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--run-largest", str(folder)]
    done = subprocess.run(here, capture_output=True, text=True, timeout=READY_WITHIN, check=True)
    return int(done.stdout.split()[-1])


def load(program: Path, server: Server, folder: Path, point: dict, seconds: float) -> dict:
    """Loads one model, and returns the point with its rate and latencies."""
    flags = json.loads((folder / f"{point['model']}.json").read_text())
    port = server.grpc if point["protocol"] == "grpc" else server.http
    clients = 1 if point["connections"] < 8 else CLIENTS
    command = [str(program), "--address", f"127.0.0.1:{port}", "--model", point["model"], "--protocol", point["protocol"]]
    command += ["--warm-up", "1.5", "--duration", str(seconds), "--tolerance", "0.05", *flags]
    command += ["--connections", str(point["connections"] // clients)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(clients)]
    results = [json.loads(each.communicate(timeout=seconds + 60)[0] or "{}") for each in started]
    if any(each.returncode for each in started):
        raise SystemExit(f"the load generator failed: {point}")
    latencies = [result["latency_us"] for result in results]
    return point | {
        "requests_per_s": sum(result["requests_per_s"] for result in results),
        "p50_us": max(latency["p50"] for latency in latencies),
        "p99_us": max(latency["p99"] for latency in latencies),
    }


def prepare(folder: Path, name: str, seconds: float) -> dict[int, float]:
    """Writes a model, its tensors and the flags of the load generator; returns the rates of its loops by batch size."""
    from harness import gpu_nets as nets

    version = folder / "models" / name / "1"
    version.mkdir(parents=True)
    module = nets.scripted(name, version / "model.pt")
    row = nets.inputs(name, 1)
    made = nets.outputs(module, row)
    (version.parent / "config.pbtxt").write_text(nets.config(name, row, made))
    flags = []
    for flag, label, tensors in (("--input", "INPUT", row), ("--expect", "OUTPUT__", made)):
        for index, tensor in enumerate(tensors):
            file = folder / f"{name}.{label}{index}"
            file.write_bytes(tensor.contiguous().numpy().tobytes())
            dims = ",".join(map(str, tensor.shape))
            flags += [flag, f"{label}{index}:{nets.TYPES[tensor.dtype]}:{dims}={file}"]
    (folder / f"{name}.json").write_text(json.dumps(flags))
    return nets.loops(module, name, seconds)


def measure(programs: dict[str, Path], folder: Path, seconds: float) -> dict:
    """Measures loops and server, with one of them on the GPU at a time."""
    from harness import gpu_nets as nets
    import torch

    rates = {name: prepare(folder, name, seconds / 4) for name in nets.NETS}
    torch.cuda.empty_cache()
    python_mib = memory_of_loops(folder)
    points = []
    with Server(programs["weir-runtime"], folder / "models", folder / "log") as server:
        for name in nets.NETS:
            for protocol in ("http-binary", "grpc"):
                for connections in CONNECTIONS:
                    point = {"model": name, "protocol": protocol, "connections": connections}
                    point = load(programs["load"], server, folder, point, seconds)
                    point["loop_rows_per_s"] = rates[name][min(connections, nets.LARGEST)]
                    print(json.dumps(point), flush=True)
                    points.append(point)
        memory, weir_mib = server.memory(), used_by(server.process.pid)
    loops = [{"model": name, **{str(rows): rate for rows, rate in by_size.items()}} for name, by_size in rates.items()]
    return {"device_mib": {"weir": weir_mib, "loops": python_mib}, "memory": memory, "loops": loops, "points": points}


def table(result: dict) -> str:
    mib = result["device_mib"]
    lines = [
        f"{result['gpu']}, PyTorch {result['torch']}. Device memory with all models after the load: weir-runtime "
        f"{mib['weir']} MiB; a process with one loop of each model at its largest batch: {mib['loops']} MiB.",
        "",
        "| model | protocol | connections | requests/s | loop, same batch, rows/s | ratio | p50, µs | p99, µs |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for point in result["points"]:
        ratio = point["requests_per_s"] / point["loop_rows_per_s"]
        numbers = [point["requests_per_s"], point["loop_rows_per_s"]]
        cells = [point["model"], point["protocol"], str(point["connections"]), *(f"{each:.0f}" for each in numbers)]
        cells += [f"{ratio:.2f}", f"{point['p50_us']:.0f}", f"{point['p99_us']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write(result: dict) -> None:
    from harness.record import written

    if IS_PACKED:
        (HERE / "gpu.json").write_text(written(result))
        (HERE / "gpu.md").write_text(table(result) + "\n")
        return
    (ROOT / "benches" / "results" / "gpu.json").write_text(written(result))
    page = ROOT / "docs" / "performance.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{table(result)}\n\n{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="build and pack only")
    parser.add_argument("--run-largest", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measurement")
    options = parser.parse_args()
    if options.pack:
        return pack(options.pack.resolve())
    if options.run_largest:
        from harness import gpu_nets as nets

        nets.run_largest(options.run_largest)
        return print(used_by(os.getpid()))
    name, reason = card()
    if name is None:
        return print(f"No GPU was measured, because {reason}: run this where a card is, or pack with PACK=folder.")
    from harness.record import machine
    import torch

    programs = {each: HERE / each for each in PROGRAMS} if IS_PACKED else build()
    if not test(programs):
        raise SystemExit("the tests on the GPU failed, so nothing was measured")
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(programs, Path(folder), options.seconds)
    result = {"gpu": name, "torch": torch.__version__, "machine": machine(), **measured}
    print(table(result))
    write(result)


if __name__ == "__main__":
    main()
