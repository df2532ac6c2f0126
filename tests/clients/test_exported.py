"""Programs of torch.export, served without a configuration: each answer equals PyTorch's.

`tests/models/exported.py` makes the programs and PyTorch's answers.
"""

from pathlib import Path

import numpy as np
import pytest

from model_files import (
    LENIENT, ask, assert_refused, assert_reloaded, assert_same, assert_same_in_company, assert_served_by_path,
    assert_signature, place,
)
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
    "branches": ("x FP32 [-1, -1, 4]", MOST),
    "torch_2_8": ("x FP32 [-1, 4]", MOST),
    "torch_2_13": ("x FP32 [-1, 4]", MOST),
    "torch_2_15": ("x FP32 [-1, 4]", MOST),
    "centred": ("x FP32 [-1, 4]", 0),
    "share": ("x FP32 [-1, 4]", 0),
    "mixer": ("x FP32 [-1, 3, 8]", 0),
    "condition": ("x FP32 [-1, 4]", 0),
    "fixed": ("x FP32 [2, 3], y FP32 [3, 4]", 0),
}
REFUSED = {
    "counter": "changes 'count'",
    "cache": "changes 'cache'",
    "loop": "operator torch.ops.higher_order.while_loop at 'while_loop' is a higher-order operator",
}


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
        place(EXPORTED / f"{model}.pt2", folder, model)
    cut = (EXPORTED / "mlp.pt2").read_bytes()
    (folder / "cut" / "1").mkdir(parents=True)
    (folder / "cut" / "1" / "model.pt2").write_bytes(cut[: len(cut) // 2])
    server = Server(folder.with_name("exported-log"), [folder], LENIENT).start()
    yield server
    server.stop()


@pytest.mark.parametrize("model", SERVED)
def test_the_signature_is_the_files(exported, model: str) -> None:
    assert_signature(exported, model, *SERVED[model])


@pytest.mark.parametrize("model", SERVED)
def test_every_batch_is_answered_as_by_pytorch(exported, model: str) -> None:
    for inputs, outputs in recorded(model).values():
        assert_same(ask(exported, model, inputs), outputs)


@pytest.mark.parametrize("model", SERVED)
def test_answers_in_company_are_the_same(exported, model: str) -> None:
    assert_same_in_company(exported, model, list(recorded(model).values()) * 4)


@pytest.mark.parametrize("model", REFUSED)
def test_programs_that_cannot_be_served_name_the_operator(exported, model: str) -> None:
    assert REFUSED[model] in exported.reason(model), exported.reason(model)


def test_a_cut_off_file_is_damaged(exported) -> None:
    reason = exported.reason("cut")
    assert "is damaged" in reason and "copy it again" in reason


def test_shapes_outside_the_contract_are_refused(exported) -> None:
    for model, shape, words in [
        ("mlp", (2, 9), "8"),
        ("mlp", (MOST + 1, 8), str(MOST)),
        ("even", (2, 5, 3), "5"),
        ("cnn", (1, 3, 11, 12), "12"),
    ]:
        name = SERVED[model][0].split()[0]
        assert_refused(ask(exported, model, {name: np.zeros(shape, np.float32)}), words)


def test_inputs_whose_sizes_must_agree_are_compared(exported) -> None:
    inputs = {"input_ids": np.zeros((1, 6), np.int64), "attention_mask": np.ones((1, 5), np.int64)}
    reply = ask(exported, "encoder", inputs)
    assert reply.status == 400 and "'attention_mask'" in reply.json()["error"], reply


def test_a_file_is_served_by_its_path(tmp_path, start) -> None:
    assert_served_by_path(start, tmp_path, EXPORTED / "mlp.pt2", [recorded("mlp")[2]])


def test_a_replaced_file_is_reloaded(tmp_path, start) -> None:
    served = ((EXPORTED / f"{model}.pt2", recorded(model)[2]) for model in ("mlp", "numbers"))
    assert_reloaded(start, tmp_path / "models", *served)
