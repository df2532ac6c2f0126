"""Models that crash or hang on made-up inputs: a load tries them in a child process, and the server survives."""

import os
import shutil
import signal
import threading
from pathlib import Path

import psutil
import pytest

from server import GOOD, ROOT, Server, wait_until
from stopwatch import Stopwatch
from wire import request, tensor

MODELS = ROOT / "runtime" / "torch" / "tests" / "models"
EXPLICIT = "--model-control-mode=explicit"
LENIENT = ["--exit-on-error=false", "--strict-readiness=false"]


def place(name: str, folder: Path) -> None:
    version = folder / name / "1"
    version.mkdir(parents=True)
    shutil.copy(MODELS / f"{name}.pt", version / "model.pt")


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "models"
    shutil.copytree(GOOD / "nobatch", folder / "nobatch")
    for name in ("spectral", "newton", "few"):
        place(name, folder)
    return folder


def row(server: Server, model: str) -> dict:
    rows = server.call("POST", "/v2/repository/index").json()
    return next(row for row in rows if row["name"] == model)


@pytest.mark.parametrize("model, cause", [("spectral", "SIGABRT"), ("newton", "a run that did not end")])
def test_a_load_that_ends_or_hangs_its_trial_harms_no_other_model(start, repository, model: str, cause: str) -> None:
    server = start([repository], EXPLICIT, "--load-model=nobatch")
    process, ended, failed = server.process.pid, threading.Event(), []

    def ask() -> None:
        while not ended.is_set():
            reply = server.infer("nobatch", request(tensor("INPUT0", "FP32", [4], [1, 2, 3, 4])))
            if reply.status != 200:
                failed.append(reply)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        reply = server.call("POST", f"/v2/repository/models/{model}/load", {}, timeout=120)
    finally:
        ended.set()
        asking.join()
    assert reply.status == 200, reply
    assert failed == []
    assert server.process.poll() is None and server.process.pid == process
    found = row(server, model)
    assert found["state"] == "READY" and found["reason"].startswith("in doubt: the trial "), found
    assert cause in found["reason"], found
    assert server.call("GET", f"/v2/models/{model}/config").json()["max_batch_size"] == 0
    warnings = [line for line in server.log.read_text().splitlines() if "the model is in doubt" in line]
    assert len(warnings) == 1 and "WARN" in warnings[0] and cause in warnings[0], warnings


def test_a_signal_ends_a_trial_at_once(repository, tmp_path) -> None:
    shutil.rmtree(repository / "spectral")
    server = Server(tmp_path / "log", [repository], LENIENT).spawn()
    wait_until(lambda: loading(server, "newton"), 60.0, "the trial runs")
    stopwatch = Stopwatch()
    server.terminate()
    assert server.exit_code() == 0
    assert stopwatch.seconds() < 10


def loading(server: Server, model: str) -> bool:
    try:
        return row(server, model).get("state") == "LOADING" and len(children(server)) > 1
    except (OSError, StopIteration):
        return False


def children(server: Server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


def test_no_child_outlives_a_server_that_is_killed(repository, tmp_path) -> None:
    server = Server(tmp_path / "log", [repository], LENIENT).spawn()
    wait_until(lambda: loading(server, "newton"), 60.0, "the trial runs")
    left = children(server)
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    _, alive = psutil.wait_procs(left, timeout=20)
    assert alive == []


def test_a_model_without_a_warm_up_logs_what_to_configure(start, repository) -> None:
    config = 'platform: "pytorch_libtorch" max_batch_size: 4\n'
    config += 'input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
    config += 'output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
    (repository / "few" / "config.pbtxt").write_text(config)
    server = start([repository], EXPLICIT, "--load-model=few")
    answer = server.infer("few", request(tensor("x", "FP32", [1, 4], [42, 0, 0, 0])))
    assert answer.outputs()["OUTPUT__0"]["data"] == [84, 0, 0, 0]
    assert row(server, "few").get("reason", "") == ""
    (warning,) = [line for line in server.log.read_text().splitlines() if "no warm-up run succeeds" in line]
    assert "the magic number is missing" in warning and "example.json" in warning, warning
