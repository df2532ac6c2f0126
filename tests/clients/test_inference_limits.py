"""Signatures that shapes alone do not determine, and what determines them: examples, further dimensions, warm-up."""

import json
import shutil
from pathlib import Path

import pytest

import wire
from server import GOOD, Server

ZOO = Path(__file__).resolve().parent.parent / "models" / "zoo"
LENIENT = ["--exit-on-error=false", "--strict-readiness=false"]
JOINTS = {"inputs": [wire.tensor("pose", "FP32", [1, 17, 5], [float(n % 7) for n in range(85)])]}


@pytest.fixture
def serve(tmp_path):
    started = []

    def one(folder: Path, *options: str) -> Server:
        server = Server(tmp_path / f"log-{len(started)}", [folder], [*LENIENT, *options]).start()
        started.append(server)
        return server

    yield one
    for server in started:
        server.stop()


def reason(server: Server) -> str:
    (row,) = server.call("POST", "/v2/repository/index").json()
    return row.get("reason", "")


def copy(model: str, folder: Path) -> Path:
    shutil.copytree(ZOO / model, folder / "m")
    return folder / "m"


def test_a_guessed_signature_is_tried_and_its_failure_is_the_clients_error(serve, tmp_path) -> None:
    copy("unservable", tmp_path / "models")
    server = serve(tmp_path / "models")
    wrong = server.infer("m", wire.request(wire.tensor("x", "FP32", [2, 2], [1, 2, 3, 4])))
    assert wrong.status == 400
    assert "expected 17 joints of 5 numbers" in wrong.error() and "guessed" in wrong.error()
    right = server.infer("m", wire.request(wire.tensor("x", "FP64", [1, 17, 5], [1.0] * 85)))
    assert right.outputs()["OUTPUT__0"]["data"] == [85.0]
    assert right.outputs()["OUTPUT__0"]["datatype"] == "FP64"


@pytest.mark.parametrize("place", ["version", "model", "flag"])
def test_an_example_determines_the_signature(serve, tmp_path, place: str) -> None:
    model = copy("unservable", tmp_path / "models")
    file = {"version": model / "1", "model": model, "flag": tmp_path}[place] / "example.json"
    file.write_text(json.dumps(JOINTS))
    server = serve(tmp_path / "models", *(["--example", str(file)] if place == "flag" else []))
    metadata = server.call("GET", "/v2/models/m").json()
    assert metadata["inputs"] == [{"name": "pose", "datatype": "FP32", "shape": [-1, 17, 5]}]
    two = server.infer("m", wire.request(wire.tensor("pose", "FP32", [2, 17, 5], [1.0] * 170)))
    assert two.outputs()["OUTPUT__0"]["data"] == [85.0, 85.0]


@pytest.mark.parametrize(
    "text, message",
    [
        ('{\n"inputs": [\n{"name" "x"}]}', "line 3"),
        ('{"inputs": [{"name": "x", "datatype": "FP31", "shape": [1], "data": [1]}]}', "FP31"),
        ('{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]}', "17 joints"),
        ('{"inputs": []}', "example"),
    ],
)
def test_a_bad_example_is_refused(serve, tmp_path, text: str, message: str) -> None:
    model = copy("unservable", tmp_path / "models")
    (model / "example.json").write_text(text)
    assert message in reason(serve(tmp_path / "models"))


def test_an_example_applies_to_one_model(tmp_path) -> None:
    server = Server(tmp_path / "log", [GOOD], ["--example", str(tmp_path / "example.json")]).spawn()
    assert server.exit_code() == 1
    assert "put an example.json beside each model" in server.log.read_text()


def test_a_layer_takes_further_dimensions(serve, tmp_path) -> None:
    copy("linear_3d", tmp_path / "models")
    server = serve(tmp_path / "models")
    values = [float(n % 5) for n in range(48)]
    flat = server.infer("m", wire.request(wire.tensor("input", "FP32", [6, 8], values)))
    deep = server.infer("m", wire.request(wire.tensor("input", "FP32", [2, 3, 8], values)))
    assert deep.outputs()["OUTPUT__0"]["shape"] == [2, 3, 3]
    assert deep.outputs()["OUTPUT__0"]["data"] == pytest.approx(flat.outputs()["OUTPUT__0"]["data"], abs=1e-5)
    assert server.infer("m", wire.request(wire.tensor("input", "FP32", [2, 3, 9], [0.0] * 54))).status == 400


def config(datatype: str, dims: str) -> str:
    return (
        'name: "m" platform: "pytorch_libtorch" max_batch_size: 4\n'
        f'input [ {{ name: "input" data_type: {datatype} dims: [ {dims} ] }} ]\n'
        'output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 3 ] } ]\n'
    )


@pytest.mark.parametrize("datatype, dims", [("TYPE_FP32", "17"), ("TYPE_INT64", "16")])
def test_a_model_that_no_request_could_run_is_refused(serve, tmp_path, datatype: str, dims: str) -> None:
    model = copy("mlp", tmp_path / "models")
    (model / "config.pbtxt").write_text(config(datatype, dims))
    refused = reason(serve(tmp_path / "models"))
    assert "no warm-up run of model 'm' succeeds: PyTorch execute failure" in refused
    assert "--warm-up-failures=allow" in refused
    server = serve(tmp_path / "models", "--warm-up-failures=allow")
    assert server.call("GET", "/v2/models/m/ready").status == 200
    warnings = [line for line in server.log.read_text().splitlines() if "no warm-up run succeeds" in line]
    assert len(warnings) == 1 and "WARN" in warnings[0], warnings
    # The model is ready, as its configuration demands, and the warning contains PyTorch's error.
    assert "PyTorch execute failure" in warnings[0], warnings
