"""ONNX files, served without a configuration: each answer equals that of onnxruntime in Python.

`tests/models/onnx_models.py` makes the files.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import wire
from model_files import (
    LENIENT, ask, assert_refused, assert_reloaded, assert_same, assert_same_in_company, assert_served_by_path,
    assert_signature, config, place,
)
from server import Server

ONNX = Path(__file__).resolve().parent.parent / "models" / "onnx"
MOST = 32

# Inputs of each model as its metadata shows them, and the largest batch.
SERVED = {
    "mlp": ("x FP32 [-1, 4]", MOST),
    "half": ("x FP16 [-1, 4]", MOST),
    "conv": ("image FP32 [-1, 3, -1, -1]", MOST),
    "encoder": ("ids INT64 [-1, -1], mask INT64 [-1, -1]", MOST),
    "classifier": ("x FP32 [-1, 4]", MOST),
    "lookup": ("index INT64 [-1]", MOST),
    # Every trial row has the same label, so the trials prove nothing.
    "labels": ("word BYTES [-1]", 0),
    "centred": ("x FP32 [-1, 4]", 0),
    "cumulative": ("x FP32 [-1, 4]", 0),
    "softmax": ("x FP32 [-1, 4]", 0),
    "fixed": ("x FP32 [2, 3]", 0),
    "total": ("x FP32 [-1]", 0),
    "scalars": ("a FP32 [], b FP32 []", 0),
    "nonzero": ("x FP32 [-1, 4]", 0),
    "external": ("x FP32 [-1, 4]", MOST),
}
REFUSED = {
    "zipmap": "output 'probabilities' is a sequence, which a response cannot have",
    "sequence_input": "input 'x' is a sequence, which a request cannot have",
    "custom_operator": "Secret(-1) is not a registered function/op; operators outside of ONNX's own domains",
    "escape": "must lie beside the model, in its own directory",
    "damaged": "copy it again",
}
WORDS = ["yes", "no", "ßtraße", "", "maybe"]


def path_of(model: str) -> Path:
    return ONNX / "external/model.onnx" if model == "external" else ONNX / f"{model}.onnx"


def inputs_of(model: str, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns inputs of the model, different for each seed."""
    random = np.random.default_rng([rows, seed])
    floats = lambda *shape: random.standard_normal(shape).astype(np.float32)  # noqa: E731
    if model == "encoder":
        ids = random.integers(0, 50, (rows, 5))
        return {"ids": ids, "mask": (ids % 3 > 0).astype(np.int64)}
    if model == "scalars":
        return {"a": floats(), "b": floats()}
    if model == "labels":
        return {"word": np.array([WORDS[at] for at in random.integers(0, len(WORDS), rows)], object)}
    if model == "lookup":
        return {"index": random.integers(0, 10, rows)}
    shape = {"conv": (rows, 3, 8, 9), "fixed": (2, 3), "total": (rows,)}.get(model, (rows, 4))
    return {"image" if model == "conv" else "x": floats(*shape).astype(np.float16 if model == "half" else np.float32)}


@pytest.fixture(scope="module")
def sessions() -> dict[str, onnxruntime.InferenceSession]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return {
        model: onnxruntime.InferenceSession(path_of(model), options, providers=["CPUExecutionProvider"])
        for model in [*SERVED, "types"]
    }


def expected(sessions, model: str, inputs: dict) -> dict[str, np.ndarray]:
    names = [output.name for output in sessions[model].get_outputs()]
    return dict(zip(names, sessions[model].run(names, inputs)))


@pytest.fixture(scope="module")
def onnx(tmp_path_factory) -> Server:
    folder = tmp_path_factory.mktemp("onnx")
    for model in [*SERVED, *REFUSED, "types"]:
        place(path_of(model), folder, model)
    shutil.copy(ONNX / "external/model.onnx.data", folder / "external" / "1")
    # Lies where the file's external data points to, outside of the model's directory.
    shutil.copy(ONNX / "external/model.onnx.data", folder / "escape" / "weights.data")
    server = Server(folder.with_name("onnx-log"), [folder], LENIENT).start()
    yield server
    server.stop()


@pytest.mark.parametrize("model", SERVED)
def test_the_signature_is_the_files(onnx, model: str) -> None:
    assert_signature(onnx, model, *SERVED[model])
    assert onnx.call("GET", f"/v2/models/{model}").json()["platform"] == "onnxruntime_onnx"
    found = config(onnx, model)
    assert (found["backend"], found["default_model_filename"]) == ("onnxruntime", "model.onnx")


@pytest.mark.parametrize("model", SERVED)
def test_every_batch_is_answered_as_by_onnxruntime(onnx, sessions, model: str) -> None:
    for rows in (1, 2, 7, MOST):
        inputs = inputs_of(model, rows)
        assert_same(ask(onnx, model, inputs), expected(sessions, model, inputs))


@pytest.mark.parametrize("model", SERVED)
def test_answers_in_company_are_the_same(onnx, sessions, model: str) -> None:
    requests = [inputs_of(model, rows, seed) for seed in range(8) for rows in (1, 2, 3)]
    answered = [(inputs, expected(sessions, model, inputs)) for inputs in requests]
    assert_same_in_company(onnx, model, answered)


def test_every_datatype_is_passed_through(onnx) -> None:
    values = np.array([[1, 0], [0, 1], [1, 1]])
    inputs = {f"in_{datatype}": values.astype(kind) for datatype, kind in wire.NUMPY.items()}
    inputs["in_BYTES"] = np.array([["a", ""], ["ß\0c", "d"], ["e" * 300, "f"]], object)
    # The order of the file is that of the outputs, whatever the order of the inputs.
    got = ask(onnx, "types", inputs).arrays()
    assert len(got) == 14
    for name, sent in inputs.items():
        received = got[name.replace("in_", "out_")]
        if sent.dtype == object:
            assert [bytes(text) for text in received.flat] == [text.encode() for text in sent.flat]
        else:
            np.testing.assert_array_equal(received, sent, name)
    assert config(onnx, "types")["max_batch_size"] == MOST


@pytest.mark.parametrize("model", REFUSED)
def test_models_that_cannot_be_served_are_refused_with_the_reason(onnx, model: str) -> None:
    assert REFUSED[model] in onnx.reason(model), onnx.reason(model)


def test_shapes_and_datatypes_are_checked_before_the_model_runs(onnx) -> None:
    for model, inputs, words in [
        ("mlp", {"x": np.zeros((2, 5), np.float32)}, "4"),
        ("mlp", {"x": np.zeros((MOST + 1, 4), np.float32)}, str(MOST)),
        ("mlp", {"x": np.zeros((2, 4), np.float64)}, "FP64"),
        ("conv", {"image": np.zeros((1, 4, 8, 8), np.float32)}, "3"),
        ("fixed", {"x": np.zeros((3, 3), np.float32)}, "2"),
        ("scalars", {"a": np.zeros(1, np.float32), "b": np.zeros((), np.float32)}, "a"),
        ("encoder", {"ids": np.zeros((1, 4), np.int64)}, "mask"),
    ]:
        assert_refused(ask(onnx, model, inputs), words)


def test_a_failing_run_fails_only_its_own_requests(onnx, sessions) -> None:
    good = {"index": np.array([3, 9])}
    bad = {"index": np.array([3, 99])}
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda inputs: ask(onnx, "lookup", inputs), [good, bad] * 20))
    for reply in replies[::2]:
        assert_same(reply, expected(sessions, "lookup", good))
    for reply in replies[1::2]:
        assert reply.status in (400, 500) and "out of data bounds" in reply.json()["error"], reply


def test_rows_of_clients_share_runs_only_where_they_are_independent(onnx) -> None:
    for model, batched in (("conv", True), ("centred", False)):
        before = onnx.statistics(model)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda seed: ask(onnx, model, inputs_of(model, 1, seed)), range(200)))
        after = onnx.statistics(model)
        runs = after["execution_count"] - before["execution_count"]
        assert after["inference_count"] - before["inference_count"] == 200
        assert (runs < 200) == batched, (model, runs)


def request(sessions, model: str) -> tuple[dict, dict]:
    """Returns inputs of two rows, and what onnxruntime answers."""
    inputs = inputs_of(model, 2)
    return inputs, expected(sessions, model, inputs)


def test_a_file_and_a_folder_are_served_by_their_path(tmp_path, start, sessions) -> None:
    assert_served_by_path(start, tmp_path, path_of("mlp"), [request(sessions, "mlp")])


def test_tritons_configuration_is_applied(tmp_path, start, sessions) -> None:
    for name, text in {
        "by_platform": 'platform: "onnxruntime_onnx" max_batch_size: 4 instance_group { count: 2 kind: KIND_CPU }',
        "by_backend": 'backend: "onnxruntime" default_model_filename: "net.onnx" '
                      'parameters { key: "intra_op_thread_count" value { string_value: "2" } }',
        "complete": 'backend: "onnxruntime" max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: 4 } '
                    'output { name: "y" data_type: TYPE_FP32 dims: 3 } dynamic_batching { }',
        "wrong_type": 'backend: "onnxruntime" max_batch_size: 8 input { name: "x" data_type: TYPE_FP64 dims: 4 }',
        "wrong_name": 'backend: "onnxruntime" max_batch_size: 8 output { name: "z" data_type: TYPE_FP32 dims: 3 }',
        "label_only": 'backend: "onnxruntime" output { name: "label" data_type: TYPE_STRING dims: -1 }',
        "torch": 'backend: "pytorch" default_model_filename: "model.onnx"',
    }.items():
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "config.pbtxt").write_text(text)
        file = "net.onnx" if name == "by_backend" else "model.onnx"
        shutil.copy(path_of("zipmap" if name == "label_only" else "mlp"), tmp_path / "models" / name / "1" / file)
    server = start([tmp_path / "models"], *LENIENT)
    inputs = inputs_of("mlp", 2)
    for model, most in (("by_platform", 4), ("by_backend", MOST), ("complete", 8)):
        assert_same(ask(server, model, inputs), expected(sessions, "mlp", inputs))
        assert config(server, model)["max_batch_size"] == most
    labels = ask(server, "label_only", inputs_of("classifier", 3)).arrays()
    assert list(labels) == ["label"] and labels["label"].shape == (3,)
    assert "datatype TYPE_FP64 for input 'x', model provides TYPE_FP32" in server.reason("wrong_type")
    assert "it has no output 'z'; its outputs are y" in server.reason("wrong_name")
    assert "is an ONNX model, not TorchScript" in server.reason("torch")


def test_a_replaced_file_is_reloaded(tmp_path, start, sessions) -> None:
    served = ((path_of(model), request(sessions, model)) for model in ("mlp", "classifier"))
    assert_reloaded(start, tmp_path / "models", *served)
