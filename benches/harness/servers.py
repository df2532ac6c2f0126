"""Starts the compared servers, each with one setting of dynamic batching."""

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from .paths import BACKENDS, BENCH, MODELS, TRITON, WEIR

# Core of the servers; the client has CLIENT_CORE for itself.
SERVER_CORE = 0
CLIENT_CORE = 1

# Long enough to load any of the models on a busy machine.
READY_WITHIN = 120.0
# Seconds between two polls for readiness, which limits the precision of start times.
LOOK_EVERY = 0.002

BATCHING = "dynamic_batching { }"
# Text that replaces BATCHING in a model's config.pbtxt.
SETTINGS = {
    "weir": BATCHING,
    "triton, no batching": "",
    "triton, delay 0": BATCHING,
    "triton, delay 1000 us": "dynamic_batching { max_queue_delay_microseconds: 1000 }",
}


def available() -> list:
    """Returns the settings whose server is installed."""
    return [name for name in SETTINGS if is_weir(name) or TRITON.exists()]


def is_weir(setting: str) -> bool:
    return setting == "weir"


def repository(setting: str, model: str) -> Path:
    """Creates a repository with one model, configured for a setting."""
    path = BENCH / "run" / setting.replace(", ", "-").replace(" ", "-") / model
    shutil.rmtree(path, ignore_errors=True)
    (path / model).mkdir(parents=True)
    source = MODELS / "repository" / model
    (path / model / "1").symlink_to(source / "1")
    config = (source / "config.pbtxt").read_text()
    assert BATCHING in config, f"{source}/config.pbtxt is not as generate.py writes it"
    (path / model / "config.pbtxt").write_text(config.replace(BATCHING, SETTINGS[setting]))
    return path


def free_ports(count: int) -> list:
    """Returns unused ports, which other processes may still take."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Server:
    """A running server, as a context manager that stops it."""

    def __init__(self, setting: str, models: Path):
        self.setting = setting
        self.http, self.grpc, metrics = free_ports(3)
        program = [str(WEIR)] if is_weir(setting) else [str(TRITON), "--backend-directory", str(BACKENDS)]
        command = ["taskset", "-c", str(SERVER_CORE), *program, "--model-repository", str(models),
                   "--http-port", str(self.http), "--grpc-port", str(self.grpc), "--metrics-port", str(metrics)]
        # There is one compute thread, because there is one core.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.log = BENCH / "run" / f"{setting.replace(', ', '-').replace(' ', '-')}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.started = time.monotonic()
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait(self) -> float:
        """Returns the seconds from the start until the server is ready."""
        url = f"http://127.0.0.1:{self.http}/v2/health/ready"
        while time.monotonic() - self.started < READY_WITHIN:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return time.monotonic() - self.started
            except (urllib.error.URLError, OSError):
                time.sleep(LOOK_EVERY)
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
        raise SystemExit(f"{self.setting} did not become ready; its log ends:\n{tail}")

    def memory_mb(self) -> dict:
        """Returns resident and proportional memory."""
        fields = {}
        for file in ("status", "smaps_rollup"):
            for line in Path(f"/proc/{self.process.pid}/{file}").read_text().splitlines():
                name, _, value = line.partition(":")
                fields[name] = value.split()
        return {key: int(fields[field][0]) / 1024 for key, field in
                (("rss", "VmRSS"), ("pss", "Pss"), ("peak", "VmHWM"))}

    def version(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/v2", timeout=5) as response:
            return response.read().decode()
