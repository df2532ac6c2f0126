"""ONNX files, served without a configuration: each answer equals that of onnxruntime in Python.

`tests/models/onnx_models.py` makes the files.
"""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from tritonclient.utils import deserialize_bytes_tensor

import wire
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
TYPES = {
    "float32": "FP32", "float16": "FP16", "float64": "FP64", "int8": "INT8", "int16": "INT16", "int32": "INT32",
    "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "bool": "BOOL",
    "object": "BYTES",
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
        (folder / model / "1").mkdir(parents=True)
        shutil.copy(path_of(model), folder / model / "1" / "model.onnx")
    shutil.copy(ONNX / "external/model.onnx.data", folder / "external" / "1")
    # Lies where the file's external data points to, outside of the model's directory.
    shutil.copy(ONNX / "external/model.onnx.data", folder / "escape" / "weights.data")
    log = folder.with_name("onnx-log")
    server = Server(log, [folder], ["--exit-on-error=false", "--strict-readiness=false"]).start()
    yield server
    server.stop()


def ask(server: Server, model: str, inputs: dict) -> wire.Reply:
    rows, blobs = [], []
    for name, array in inputs.items():
        datatype = TYPES[array.dtype.name] if name != "in_BF16" else "BF16"
        blobs.append(bytes_of(array, datatype))
        rows.append(wire.tensor(name, datatype, array.shape, binary_data_size=len(blobs[-1])))
    header = {"inputs": rows, "parameters": {"binary_data_output": True}}
    body, headers = wire.binary(header, *blobs)
    return server.infer(model, body, headers)


def bytes_of(array: np.ndarray, datatype: str) -> bytes:
    if datatype == "BYTES":
        return wire.strings(*(text.encode() for text in array.flat))
    return (array.astype(ml_dtypes.bfloat16) if datatype == "BF16" else array).tobytes()


def outputs_of(reply: wire.Reply) -> dict[str, np.ndarray]:
    assert reply.status == 200, reply
    header, data = reply.split()
    outputs = {}
    for output in header["outputs"]:
        size = output["parameters"]["binary_data_size"]
        blob, data = data[:size], data[size:]
        if output["datatype"] == "BYTES":
            outputs[output["name"]] = deserialize_bytes_tensor(blob).reshape(output["shape"])
        else:
            outputs[output["name"]] = wire.from_bytes(output["datatype"], blob, output["shape"])
    return outputs


def assert_same(reply: wire.Reply, wanted: dict) -> None:
    got = outputs_of(reply)
    assert list(got) == list(wanted)
    for name, right in wanted.items():
        assert got[name].shape == right.shape, (name, got[name].shape, right.shape)
        if right.dtype == object:
            texts = [text if isinstance(text, bytes) else text.encode() for text in right.flat]
            assert [text if isinstance(text, bytes) else text.encode() for text in got[name].flat] == texts, name
            continue
        tolerance = 1e-3 if right.dtype == np.float16 else 1e-5
        scale = np.abs(right.astype(np.float64)).max(initial=0) + 1e-6
        np.testing.assert_allclose(got[name], right, rtol=0, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize("model", SERVED)
def test_the_signature_is_the_files(onnx, model: str) -> None:
    inputs, most = SERVED[model]
    reply = onnx.call("GET", f"/v2/models/{model}").json()
    rows = [f"{row['name']} {row['datatype']} {row['shape']}" for row in reply["inputs"]]
    assert (reply["platform"], ", ".join(rows)) == ("onnxruntime_onnx", inputs)
    config = onnx.call("GET", f"/v2/models/{model}/config").json()
    assert (config["max_batch_size"], config["backend"]) == (most, "onnxruntime")
    assert config["default_model_filename"] == "model.onnx"


@pytest.mark.parametrize("model", SERVED)
def test_every_batch_is_answered_as_by_onnxruntime(onnx, sessions, model: str) -> None:
    for rows in (1, 2, 7, MOST):
        inputs = inputs_of(model, rows)
        assert_same(ask(onnx, model, inputs), expected(sessions, model, inputs))


@pytest.mark.parametrize("model", SERVED)
def test_answers_in_company_are_the_same(onnx, sessions, model: str) -> None:
    requests = [inputs_of(model, rows, seed) for seed in range(8) for rows in (1, 2, 3)]
    with ThreadPoolExecutor(8) as pool:
        replies = pool.map(lambda inputs: ask(onnx, model, inputs), requests)
        for reply, inputs in zip(replies, requests):
            assert_same(reply, expected(sessions, model, inputs))


def test_every_datatype_is_passed_through(onnx) -> None:
    values = np.array([[1, 0], [0, 1], [1, 1]])
    inputs = {f"in_{name}": values.astype(numpy) for numpy, name in TYPES.items() if name not in ("BYTES", "BOOL")}
    inputs["in_BOOL"] = values.astype(bool)
    inputs["in_BF16"] = values.astype(np.float32)
    inputs["in_BYTES"] = np.array([["a", ""], ["ß\0c", "d"], ["e" * 300, "f"]], object)
    # The order of the file is that of the outputs, whatever the order of the inputs.
    got = outputs_of(ask(onnx, "types", inputs))
    assert len(got) == 14
    for name, sent in inputs.items():
        received = got[name.replace("in_", "out_")]
        if sent.dtype == object:
            assert [bytes(text) for text in received.flat] == [text.encode() for text in sent.flat]
        else:
            np.testing.assert_array_equal(received, sent, name)
    assert onnx.call("GET", "/v2/models/types/config").json()["max_batch_size"] == MOST


def reason(server: Server, model: str) -> str:
    rows = server.call("POST", "/v2/repository/index").json()
    return next(row["reason"] for row in rows if row["name"] == model)


@pytest.mark.parametrize("model", REFUSED)
def test_models_that_cannot_be_served_are_refused_with_the_reason(onnx, model: str) -> None:
    assert REFUSED[model] in reason(onnx, model), reason(onnx, model)


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
        reply = ask(onnx, model, inputs)
        assert reply.status == 400 and re.search(rf"\b{words}\b", reply.json()["error"]), reply


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
        before = statistics(onnx, model)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda seed: ask(onnx, model, inputs_of(model, 1, seed)), range(200)))
        after = statistics(onnx, model)
        runs = after["execution_count"] - before["execution_count"]
        assert after["inference_count"] - before["inference_count"] == 200
        assert (runs < 200) == batched, (model, runs)


def statistics(server: Server, model: str) -> dict:
    return server.call("GET", f"/v2/models/{model}/stats").json()["model_stats"][0]


def test_a_file_and_a_folder_are_served_by_their_path(tmp_path, start, sessions) -> None:
    shutil.copy(path_of("mlp"), tmp_path / "net.onnx")
    (tmp_path / "bare").mkdir()
    shutil.copy(path_of("mlp"), tmp_path / "bare" / "model.onnx")
    server = start([tmp_path / "net.onnx", tmp_path / "bare"], "--warm-up-failures=refuse")
    inputs = inputs_of("mlp", 2)
    for model in ("net", "bare"):
        assert_same(ask(server, model, inputs), expected(sessions, "mlp", inputs))


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
    server = start([tmp_path / "models"], "--exit-on-error=false", "--strict-readiness=false")
    inputs = inputs_of("mlp", 2)
    for model, most in (("by_platform", 4), ("by_backend", MOST), ("complete", 8)):
        assert_same(ask(server, model, inputs), expected(sessions, "mlp", inputs))
        assert server.call("GET", f"/v2/models/{model}/config").json()["max_batch_size"] == most
    labels = outputs_of(ask(server, "label_only", inputs_of("classifier", 3)))
    assert list(labels) == ["label"] and labels["label"].shape == (3,)
    assert "datatype TYPE_FP64 for input 'x', model provides TYPE_FP32" in reason(server, "wrong_type")
    assert "it has no output 'z'; its outputs are y" in reason(server, "wrong_name")
    assert "is an ONNX model, not TorchScript" in reason(server, "torch")


def test_a_replaced_file_is_reloaded(tmp_path, start, sessions) -> None:
    model = tmp_path / "models" / "m" / "1"
    model.mkdir(parents=True)
    shutil.copy(path_of("mlp"), model / "model.onnx")
    server = start([tmp_path / "models"], "--model-control-mode=explicit", "--load-model=m")
    assert_same(ask(server, "m", inputs_of("mlp", 2)), expected(sessions, "mlp", inputs_of("mlp", 2)))
    shutil.copy(path_of("classifier"), model / "next")
    (model / "next").rename(model / "model.onnx")
    assert server.call("POST", "/v2/repository/models/m/load").status == 200
    inputs = inputs_of("classifier", 2)
    assert_same(ask(server, "m", inputs), expected(sessions, "classifier", inputs))
