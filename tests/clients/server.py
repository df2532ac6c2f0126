"""Starts and stops `weir-runtime` on free ports, alone or behind a gateway."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Callable, Optional, Sequence

import psutil

import wire

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BINARY = Path(os.environ.get("WEIR_RUNTIME", ROOT / "target" / "release" / "weir-runtime"))

GOOD = HERE.parent / "models" / "repository"
BROKEN = HERE.parent / "models" / "broken"
CHANGING = HERE.parent / "models" / "changing"
ENDLESS = HERE.parent / "models" / "endless"
# Folder of a single model, not of several models.
HEAVY = HERE.parent / "models" / "heavy"
DIGITS = ROOT / "examples" / "digits" / "weir-examples"
DIGITS_INPUTS = ROOT / "examples" / "digits" / "inputs"
RAGGED = ROOT / "examples" / "ragged" / "weir-examples"

# Changes each server to one behind a gateway; set by pytest's option `--through`.
use_gateway: Optional[Callable[["Server"], None]] = None

# Loading fifty small models takes about a second; a busy two-core machine may need many times that.
START_DEADLINE = 60.0
# Longer than the longest --exit-timeout-secs of any test.
STOP_DEADLINE = 45.0


def wait_until(condition: Callable[[], object], deadline: float, what: str) -> object:
    """Polls until `condition` returns a true value, and returns that."""
    end = time.monotonic() + deadline
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline} s: {what}")
        time.sleep(0.01)


def stays(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Checks that `condition` goes on to return a true value for this long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"no longer: {what}"
        time.sleep(0.05)
    assert condition(), f"no longer: {what}"


def free_ports(count: int) -> list[int]:
    """Returns unused ports. All are bound at the same time, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


# All servers that were started, to be killed at the end of the session: a failed test may leave its server running.
spawned: list["Server"] = []


class Server:
    """A server process. `stop` asserts that it ends cleanly."""

    def __init__(self, log: Path, repositories: Sequence[Path], options: Sequence[str] = (), device: str = "cpu"):
        self.http_port, self.grpc_port, self.metrics_port = free_ports(3)
        self.http = f"127.0.0.1:{self.http_port}"
        self.grpc = f"127.0.0.1:{self.grpc_port}"
        self.log = log
        self.command = [str(BINARY)]
        for path in repositories:
            self.command += ["--model-repository", str(path)]
        for kind in ("http", "grpc", "metrics"):
            self.command += [f"--{kind}-address", "127.0.0.1"]
            self.command += [f"--{kind}-port", str(getattr(self, f"{kind}_port"))]
        self.command += ["--device", device, *options]
        self.process: Optional[subprocess.Popen] = None
        if use_gateway:
            use_gateway(self)

    def spawn(self) -> "Server":
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)
        spawned.append(self)
        return self

    def start(self, path: str = "/v2/health/ready") -> "Server":
        self.spawn()
        wait_until(lambda: self.responds(path), START_DEADLINE, f"{path} of {self.command}")
        return self

    def responds(self, path: str) -> bool:
        code = self.process.poll()
        if code is not None:
            raise AssertionError(f"exited during start-up with {code}:\n{self.log.read_text()[-4000:]}")
        try:
            return self.call("GET", path).status == 200
        except OSError:
            return False

    def exit_code(self, deadline: float = STOP_DEADLINE) -> int:
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running after {deadline} s:\n{self.log.read_text()[-4000:]}")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Sends SIGTERM. The server must still be running, exit with 0, and not have panicked."""
        assert self.process.poll() is None, f"exited early:\n{self.log.read_text()[-4000:]}"
        self.terminate()
        code = self.exit_code()
        text = self.log.read_text(errors="replace")
        assert code == 0, f"exit code {code}:\n{text[-4000:]}"
        assert "panicked at" not in text, text[-4000:]

    def kill(self) -> None:
        """Kills the server if it is still running."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def call(self, method: str, path: str, body=None, headers=None, timeout=30.0) -> wire.Reply:
        return wire.call(self.http_port, method, path, body, headers, timeout)

    def infer(self, model: str, body, headers=None, version="", timeout=60.0) -> wire.Reply:
        middle = f"/versions/{version}" if version else ""
        return self.call("POST", f"/v2/models/{model}{middle}/infer", body, headers, timeout)

    def reason(self, model: str) -> str:
        """Returns the reason of the repository index for the model's state; empty if there is none."""
        rows = self.call("POST", "/v2/repository/index").json()
        return next(row.get("reason", "") for row in rows if row["name"] == model)

    def statistics(self, model: str) -> dict:
        reply = self.call("GET", f"/v2/models/{model}/stats")
        assert reply.status == 200, reply
        return reply.json()["model_stats"][0]

    def metrics_text(self) -> str:
        reply = wire.call(self.metrics_port, "GET", "/metrics")
        assert reply.status == 200, reply
        return reply.body.decode()

    def metric(self, name: str, **labels: str) -> float:
        """Returns the value of the only series with this name and these labels; 0 if there is none."""
        found = [
            float(line.rsplit(" ", 1)[1])
            for line in self.metrics_text().splitlines()
            if line.startswith((name + "{", name + " "))
            and all(f'{key}="{value}"' in line for key, value in labels.items())
        ]
        assert len(found) <= 1, (name, labels, found)
        return found[0] if found else 0.0

    def wait_for_pending(self, model: str, count: int) -> None:
        """Blocks until this many requests are queued for the model."""

        def queued() -> bool:
            return self.metric("nv_inference_pending_request_count", model=model) >= count

        def stays_queued() -> bool:
            # On a busy machine a request may be queued for a moment although an instance is free.
            if not queued():
                return False
            time.sleep(0.05)
            return queued()

        wait_until(stays_queued, 10, f"{count} requests queued for {model}")

    def peak_bytes(self) -> int:
        """Returns the peak of resident memory since the last call, or since the start."""
        folder = Path("/proc") / str(self.process.pid)
        status = (folder / "status").read_text()
        kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
        (folder / "clear_refs").write_text("5")
        return int(kilobytes) << 10

    def allocated_bytes(self) -> int:
        """Returns the bytes that the server has allocated; behind a gateway, those of gateway and server together.

        Pages of programs and libraries do not count, because the kernel maps and unmaps them at any time.
        """
        process = psutil.Process(self.process.pid)
        infos = [p.memory_info() for p in [process, *process.children(recursive=True)]]
        return sum(info.rss - info.shared for info in infos)
