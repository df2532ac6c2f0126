"""Programs of torch.export, served without a configuration: each answer equals PyTorch's.

`tests/models/exported.py` makes the programs and PyTorch's answers.
"""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import wire
from server import Server

EXPORTED = Path(__file__).resolve().parent.parent / "models" / "exported"
MOST = 16

# Inputs of each model as its metadata shows them, and the largest batch.
SERVED = {
    "mlp": ("x FP32 [-1, 8]", MOST),
    "cnn": ("image FP32 [-1, 3, 12, 12]", MOST),
    "encoder": ("input_ids INT64 [-1, -1], attention_mask INT64 [-1, -1]", MOST),
    "attention": ("x FP32 [-1, -1, 8]", MOST),
    "lstm": ("x FP32 [-1, 5, 6]", MOST),
    "bag": ("ids INT64 [-1, 4]", MOST),
    "recommender": ("user INT64 [-1], item INT64 [-1], features FP32 [-1, 3]", MOST),
    "numbers": ("x FP32 [-1, 3]", MOST),
    "autoencoder": ("x FP32 [-1, 1, 8, 8]", MOST),
    "gru": ("x FP32 [-1, 4, 5], state FP32 [-1, 7]", MOST),
    "norm": ("x FP32 [-1, 4, 6]", MOST),
    "even": ("x FP32 [-1, -1, 3]", MOST),
    "ungraded": ("x FP32 [-1, 6]", MOST),
    "torch_2_8": ("x FP32 [-1, 4]", MOST),
    "torch_2_13": ("x FP32 [-1, 4]", MOST),
    "torch_2_15": ("x FP32 [-1, 4]", MOST),
    "centred": ("x FP32 [-1, 4]", 0),
    "share": ("x FP32 [-1, 4]", 0),
    "mixer": ("x FP32 [-1, 3, 8]", 0),
    "fixed": ("x FP32 [2, 3], y FP32 [3, 4]", 0),
}
REFUSED = {
    "counter": "changes 'count'",
    "condition": "operator torch.ops.higher_order.cond at 'cond' is a higher-order operator",
}
TYPES = {"float32": "FP32", "int64": "INT64"}


def recorded(model: str) -> dict[int, tuple[dict, dict]]:
    """Returns PyTorch's inputs and outputs by number of rows."""
    found: dict[int, tuple[dict, dict]] = {}
    with np.load(EXPORTED / f"{model}.npz") as answers:
        for key in answers.files:
            rows, kind, name = key.split("/", 2)
            found.setdefault(int(rows), ({}, {}))[kind == "out"][name] = answers[key]
    return found


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Server:
    folder = tmp_path_factory.mktemp("exported")
    for model in [*SERVED, *REFUSED]:
        (folder / model / "1").mkdir(parents=True)
        shutil.copy(EXPORTED / f"{model}.pt2", folder / model / "1" / "model.pt2")
    cut = (EXPORTED / "mlp.pt2").read_bytes()
    (folder / "cut" / "1").mkdir(parents=True)
    (folder / "cut" / "1" / "model.pt2").write_bytes(cut[: len(cut) // 2])
    log = folder.with_name("exported-log")
    server = Server(log, [folder], ["--exit-on-error=false", "--strict-readiness=false"]).start()
    yield server
    server.stop()


def ask(server: Server, model: str, inputs: dict) -> wire.Reply:
    rows, blobs = [], []
    for name, array in inputs.items():
        blobs.append(array.tobytes())
        rows.append(wire.tensor(name, TYPES[array.dtype.name], array.shape, binary_data_size=len(blobs[-1])))
    header = {"inputs": rows, "parameters": {"binary_data_output": True}}
    body, headers = wire.binary(header, *blobs)
    return server.infer(model, body, headers)


def assert_same(reply: wire.Reply, wanted: dict) -> None:
    assert reply.status == 200, reply
    header, data = reply.split()
    assert sorted(output["name"] for output in header["outputs"]) == sorted(wanted)
    for output in header["outputs"]:
        size = output["parameters"]["binary_data_size"]
        blob, data = data[:size], data[size:]
        got, right = wire.from_bytes(output["datatype"], blob, output["shape"]), wanted[output["name"]]
        assert got.shape == right.shape, (output["name"], got.shape, right.shape)
        scale = np.abs(right).max() + 1e-6
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-5 * scale, err_msg=output["name"])


@pytest.mark.parametrize("model", SERVED)
def test_the_signature_is_the_files(exported, model: str) -> None:
    inputs, most = SERVED[model]
    reply = exported.call("GET", f"/v2/models/{model}").json()
    rows = [f"{row['name']} {row['datatype']} {row['shape']}" for row in reply["inputs"]]
    assert ", ".join(rows) == inputs
    assert exported.call("GET", f"/v2/models/{model}/config").json()["max_batch_size"] == most


@pytest.mark.parametrize("model", SERVED)
def test_every_batch_is_answered_as_by_pytorch(exported, model: str) -> None:
    for inputs, outputs in recorded(model).values():
        assert_same(ask(exported, model, inputs), outputs)


@pytest.mark.parametrize("model", SERVED)
def test_answers_in_company_are_the_same(exported, model: str) -> None:
    requests = list(recorded(model).values()) * 4
    with ThreadPoolExecutor(8) as pool:
        replies = pool.map(lambda request: ask(exported, model, request[0]), requests)
        for reply, (_, outputs) in zip(replies, requests):
            assert_same(reply, outputs)


def reason(server: Server, model: str) -> str:
    rows = server.call("POST", "/v2/repository/index").json()
    return next(row["reason"] for row in rows if row["name"] == model)


@pytest.mark.parametrize("model", REFUSED)
def test_programs_that_cannot_be_served_name_the_operator(exported, model: str) -> None:
    assert REFUSED[model] in reason(exported, model), reason(exported, model)


def test_a_cut_off_file_is_damaged(exported) -> None:
    assert "is damaged" in reason(exported, "cut") and "copy it again" in reason(exported, "cut")


def test_shapes_outside_the_contract_are_refused(exported) -> None:
    for model, shape, words in [
        ("mlp", (2, 9), "8"),
        ("mlp", (MOST + 1, 8), str(MOST)),
        ("even", (2, 5, 3), "5"),
        ("cnn", (1, 3, 11, 12), "12"),
    ]:
        name = SERVED[model][0].split()[0]
        reply = ask(exported, model, {name: np.zeros(shape, np.float32)})
        assert reply.status == 400 and re.search(rf"\b{words}\b", reply.json()["error"]), reply


def test_inputs_whose_sizes_must_agree_are_compared(exported) -> None:
    inputs = {"input_ids": np.zeros((1, 6), np.int64), "attention_mask": np.ones((1, 5), np.int64)}
    reply = ask(exported, "encoder", inputs)
    assert reply.status == 400 and "'attention_mask'" in reply.json()["error"], reply


def test_a_file_is_served_by_its_path(tmp_path, start) -> None:
    shutil.copy(EXPORTED / "mlp.pt2", tmp_path / "net.pt2")
    (tmp_path / "bare").mkdir()
    shutil.copy(EXPORTED / "mlp.pt2", tmp_path / "bare" / "model.pt2")
    server = start([tmp_path / "net.pt2", tmp_path / "bare"], "--warm-up-failures=refuse")
    inputs, outputs = recorded("mlp")[2]
    for model in ("net", "bare"):
        assert_same(ask(server, model, inputs), outputs)


def test_a_replaced_file_is_reloaded(tmp_path, start) -> None:
    model = tmp_path / "models" / "m" / "1"
    model.mkdir(parents=True)
    shutil.copy(EXPORTED / "mlp.pt2", model / "model.pt2")
    server = start([tmp_path / "models"], "--model-control-mode=explicit", "--load-model=m")
    assert_same(ask(server, "m", recorded("mlp")[2][0]), recorded("mlp")[2][1])
    shutil.copy(EXPORTED / "numbers.pt2", model / "next")
    (model / "next").rename(model / "model.pt2")
    assert server.call("POST", "/v2/repository/models/m/load").status == 200
    assert_same(ask(server, "m", recorded("numbers")[2][0]), recorded("numbers")[2][1])
