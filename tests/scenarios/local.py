"""The scenarios on `weir up`, where replicas are processes of this machine. WEIR and WEIR_RUNTIME name the programs;
the default is those of the dev profile:

    .venv/bin/python tests/scenarios/local.py
"""

import json
import os
import socket
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import scenarios
from asking import ROOT, run, wait_until

WEIR = Path(os.environ.get("WEIR", ROOT / "target/debug/weir"))
RUNTIME = Path(os.environ.get("WEIR_RUNTIME", ROOT / "target/debug/weir-runtime"))


class Local:
    """A `weir up` that watches a folder, in which each service is a file."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "services/digits.json"
        self.file.parent.mkdir()
        (self.file.parent / "weir-examples").symlink_to(ROOT / "examples/digits/weir-examples")
        self.port, self.admin_port = free_port(), free_port()
        self.log = open(folder / "log", "w")
        command = [WEIR, "up", "--file", self.file.parent, "--port", str(self.port), "--admin-port", str(self.admin_port)]
        command += ["--runtime", RUNTIME, "--state-dir", folder / "state"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def wait(self):
        wait_until("weir up answers", 30, lambda: self.answers())

    def answers(self):
        try:
            return self.status() is not None
        except OSError:
            return False

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=60)

    def apply(self, body):
        """Writes the file atomically, because the folder is watched."""
        partial = self.file.with_suffix(".partial")
        partial.write_text(json.dumps(body))
        partial.rename(self.file)

    def delete(self):
        self.file.unlink()

    def status(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/status", timeout=10) as answer:
            return json.load(answer)["services"]

    def is_ready(self):
        return [row["ready"] for row in self.status()] == ["True"]

    def http(self):
        address = f"http://127.0.0.1:{self.port}"
        return {
            "by its path": (f"{address}/serving/default/digits", {}),
            "by its model": (address, {}),
            "by its host": (address, {"Host": "digits-default.example.com"}),
            "by its name": (address, {"Host": "digits.default"}),
            "by its predictor's name": (address, {"Host": "digits-predictor.default.svc.cluster.local"}),
        }

    def grpc(self):
        address = f"127.0.0.1:{self.port}"
        return {"by its model": (address, None), "by its name": (address, "digits.default")}

    def replicas(self):
        return len(children(self.process.pid))

    def left(self):
        return [row["name"] for row in self.status()] + children(self.process.pid)

    def explanation(self):
        return (self.folder / "log").read_text()


def children(pid):
    """Returns the model server processes that this process has started."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [child for children in listed for child in children.read_text().split()]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    with tempfile.TemporaryDirectory() as folder:
        bed = Local(Path(folder))
        try:
            run("local", scenarios.on(bed, *scenarios.ALL), bed.wait, bed.explanation)
        finally:
            bed.end()


if __name__ == "__main__":
    main()
