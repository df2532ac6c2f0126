"""Models as users bring them, without a configuration: each answer equals PyTorch's.

`tests/models/zoo.py` makes the models and PyTorch's answers. `EXPECTED` contains the inferred signature of each model,
or the reason why it is refused.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Union

import numpy as np
import pytest

import wire
from server import Server

ZOO = Path(__file__).resolve().parent.parent / "models" / "zoo"


class Batched(NamedTuple):
    """Served with a batch dimension. Inputs have the form `NAME DATATYPE SHAPE, …`."""

    inputs: str


class Alone(NamedTuple):
    """Served without a batch dimension."""

    inputs: str


class Guessed(NamedTuple):
    """Served with each request alone and unchecked, because no trial run succeeded."""


class Refused(NamedTuple):
    """Not loaded, for a reason that contains these words."""

    reason: str


EXPECTED: dict[str, Union[Batched, Alone, Guessed, Refused]] = {
    "any_size": Batched("image FP32 [-1, 3, -1, -1]"),
    "attention": Batched("x FP32 [-1, -1, 8]"),
    "audio": Batched("audio FP32 [-1, 1, -1]"),
    "autoencoder": Batched("image FP32 [-1, 3, -1, -1]"),
    "bert": Batched("input_ids INT64 [-1, -1], attention_mask INT64 [-1, -1]"),
    "best": Batched("x FP32 [-1, 6]"),
    "bfloat16": Batched("input BF16 [-1, 8]"),
    "bilinear": Batched("input1 FP32 [-1, 4], input2 FP32 [-1, 6]"),
    "categories": Batched("categories INT64 [-1, 4], numbers FP32 [-1, 5]"),
    "cell": Batched("x FP32 [-1, 5], state FP32 [-1, 3]"),
    "centred": Alone("x FP32 [-1, -1]"),
    "clip": Batched("clip FP32 [-1, 2, -1, -1, -1]"),
    "constant": Alone(""),
    "convnext_traced": Batched("x FP32 [-1, 3, -1, -1]"),
    "decoder": Batched("latent FP32 [-1, 6]"),
    "densenet": Batched("x FP32 [-1, 3, -1, -1]"),
    "densenet_traced": Batched("x FP32 [-1, 3, -1, -1]"),
    "digits": Batched("image FP32 [-1, 1, 28, 28]"),
    "digits_frozen": Batched("image FP32 [-1, 1, 28, 28]"),
    "distilbert": Batched("input INT64 [-1, -1], attention_mask INT64 [-1, -1]"),
    "double": Batched("input FP64 [-1, 8]"),
    "electra": Batched("input_ids INT64 [-1, -1], attention_mask INT64 [-1, -1]"),
    "embedding_bag": Batched("input INT64 [-1, -1]"),
    "encoder_layer": Batched("src FP32 [-1, -1, 8]"),
    "fixed_length": Batched("steps FP32 [-1, 12, 5]"),
    "flat_autoencoder": Batched("x FP32 [-1, 64]"),
    "gpt2": Batched("input_ids INT64 [-1, -1], attention_mask INT64 [-1, -1]"),
    "half": Batched("input FP16 [-1, 8]"),
    "hf_vit": Batched("pixel_values FP32 [-1, 3, 16, 16]"),
    "image_and_vector": Batched("image FP32 [-1, 3, -1, -1], features FP32 [-1, 9]"),
    "inverse": Batched("matrix FP32 [-1, -1, -1]"),
    "label": Batched("x FP32 [-1, 6]"),
    "layer_norm": Batched("input FP32 [-1, 6]"),
    "linear_3d": Batched("input FP32 [-1, 8]"),
    "masked_mean": Batched("input_ids INT64 [-1, -1], mask FP32 [-1, -1]"),
    "matrix_product": Batched("x FP32 [-1, 9]"),
    "mlp": Batched("input FP32 [-1, 16]"),
    "mobilenet_v2": Batched("x FP32 [-1, 3, -1, -1]"),
    "moments": Alone("x FP32 [-1, -1]"),
    "nonzero": Alone("x FP32 [-1, -1]"),
    "optional_bias": Batched("x FP32 [-1, 6]"),
    "pick": Batched("table FP32 [-1, -1], index INT64 [-1, -1]"),
    "pixels": Batched("image UINT8 [-1, 3, -1, -1]"),
    "positive": Alone("x FP32 [-1, -1]"),
    "resnet": Batched("x FP32 [-1, 3, -1, -1]"),
    "resnet_traced": Batched("x FP32 [-1, 3, -1, -1]"),
    "sequence": Batched("tokens INT64 [-1, -1]"),
    "shufflenet_v2_traced": Batched("x FP32 [-1, 3, -1, -1]"),
    "signal": Batched("signal FP32 [-1, -1, 7]"),
    "similarity": Batched("left FP32 [-1, -1], right FP32 [-1, -1]"),
    "single": Batched("user INT64 [-1, 1]"),
    "single_traced": Batched("user INT64 [-1, 1]"),
    "spectrum": Refused("an output is a complex tensor"),
    "squeezed": Batched("x FP32 [-1, 6]"),
    "strings_and_tensor": Batched("texts BYTES [-1, 1], weight FP32 [-1, -1]"),
    "swin_traced": Batched("x FP32 [-1, 3, -1, -1]"),
    "t5_encoder": Batched("input INT64 [-1, -1], attention_mask INT64 [-1, -1]"),
    "tabular": Batched("row FP32 [-1, 11]"),
    "text_cnn": Batched("tokens INT64 [-1, -1]"),
    "time_first": Alone("steps FP32 [-1, -1, 3]"),
    "top_k": Batched("x FP32 [-1, 6]"),
    "total": Alone("x FP32 [-1, -1]"),
    "two_towers": Batched("user FP32 [-1, 10], item FP32 [-1, 3]"),
    "two_towers_frozen": Batched("user FP32 [-1, 10], item FP32 [-1, 3]"),
    "unchanged": Batched("x FP32 [-1, -1]"),
    "unservable": Guessed(),
    "vgg_traced": Batched("x FP32 [-1, 3, -1, -1]"),
    # The weights of the last layer are zero, so no run can show that rows are independent.
    "vit": Alone("x FP32 [-1, 3, 32, 32]"),
    "vit_traced": Alone("x FP32 [-1, 3, 32, 32]"),
}

# Relative to the largest element of an output, because kernels for other batch sizes sum in another order.
TOLERANCE = {"FP16": 2e-2, "BF16": 5e-2}
CLIENTS, REQUESTS = 16, 4


class Recorded(NamedTuple):
    inputs: list[tuple[str, np.ndarray]]
    outputs: list[np.ndarray]


def recorded() -> dict[str, list[Recorded]]:
    """Returns the recorded requests and PyTorch's answers, by model."""
    models: dict[str, dict[int, Recorded]] = {}
    with np.load(ZOO / "answers.npz") as answers:
        for key in answers.files:
            model, number, kind, name = key.split("/", 3)
            request = models.setdefault(model, {}).setdefault(int(number), Recorded([], []))
            if kind == "in":
                request.inputs.append((name, answers[key]))
            else:
                request.outputs.append(answers[key])
    return {model: [requests[number] for number in sorted(requests)] for model, requests in models.items()}


RECORDED = recorded()
SERVED = [name for name, expected in EXPECTED.items() if not isinstance(expected, Refused)]
BATCHED = [name for name, expected in EXPECTED.items() if isinstance(expected, Batched)]


def start(tmp_path_factory, config: str, *options: str) -> Server:
    """Serves a copy of the zoo; `config` is the minimal configuration that every model gets."""
    folder = tmp_path_factory.mktemp("zoo")
    for name in EXPECTED:
        shutil.copytree(ZOO / name, folder / name)
        if config:
            (folder / name / "config.pbtxt").write_text(config)
    log = folder.with_name(folder.name + "-log")
    return Server(log, [folder], ["--exit-on-error=false", "--strict-readiness=false", *options]).start()


@pytest.fixture(scope="module")
def zoo(tmp_path_factory) -> Server:
    server = start(tmp_path_factory, "")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def three_instances(tmp_path_factory) -> Server:
    server = start(tmp_path_factory, "instance_group [ { count: 3 kind: KIND_CPU } ]")
    yield server
    server.stop()


def ask(server: Server, model: str, inputs: list[tuple[str, np.ndarray, str]]) -> wire.Reply:
    """Sends a binary request with named arrays, each with its datatype."""
    return server.infer(
        model, *wire.arrays({name: array.astype(wire.NUMPY.get(datatype, object)) for name, array, datatype in inputs})
    )


def assert_same(model: str, reply: wire.Reply, wanted: list[np.ndarray]) -> None:
    got = reply.arrays()
    assert len(got) == len(wanted), (model, got, wanted)
    for array, right in zip(got.values(), wanted):
        assert array.shape == right.shape, (model, array.shape, right.shape)
        if not right.size:
            continue
        right = right.astype(np.float64)
        allowed = TOLERANCE.get(wire.DATATYPES[array.dtype], 1e-4) * (np.abs(right).max() + 1e-6)
        np.testing.assert_allclose(array.astype(np.float64), right, rtol=0, atol=allowed, err_msg=model)


def row_by_row(model: str, array: np.ndarray) -> np.ndarray:
    """Returns an input as the server takes it: if a row is one element, [rows, 1] instead of PyTorch's [rows]."""
    return array[:, None] if array.ndim == 1 and isinstance(EXPECTED[model], Batched) else array


def metadata(server: Server, model: str) -> dict:
    reply = server.call("GET", f"/v2/models/{model}")
    assert reply.status == 200, (model, reply)
    return reply.json()


def named(server: Server, model: str, request: Recorded) -> list[tuple[str, np.ndarray, str]]:
    """Returns the inputs of a recorded request, with the datatypes that were inferred for the model."""
    given = dict(request.inputs)
    inputs = metadata(server, model)["inputs"]
    if isinstance(EXPECTED[model], Guessed):
        return [(name, array, "FP32") for name, array in request.inputs]
    inputs = [row for row in inputs if row["name"] in given]
    return [(row["name"], row_by_row(model, given[row["name"]]), row["datatype"]) for row in inputs]


def described(server: Server, model: str) -> str:
    rows = metadata(server, model)["inputs"]
    return ", ".join(f"{row['name']} {row['datatype']} {row['shape']}" for row in rows)


def joined(requests: list[Recorded]) -> Recorded:
    """Joins the rows of several requests to one request."""
    inputs = [
        (name, np.concatenate([dict(request.inputs)[name] for request in requests]))
        for name, _ in requests[0].inputs
    ]
    outputs = zip(*(request.outputs for request in requests))
    return Recorded(inputs, [np.concatenate(rows) for rows in outputs])


def test_every_model_is_in_the_table() -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in ZOO.iterdir() if path.is_dir())
    assert len(SERVED) >= 40


@pytest.mark.parametrize("model", EXPECTED)
def test_inferred_signatures(zoo, model: str) -> None:
    expected = EXPECTED[model]
    if isinstance(expected, Refused):
        assert expected.reason in zoo.reason(model), zoo.reason(model)
        return
    config = zoo.call("GET", f"/v2/models/{model}/config").json()
    assert (config["max_batch_size"] > 0) == isinstance(expected, Batched), config
    if not isinstance(expected, Guessed):
        assert described(zoo, model) == expected.inputs


@pytest.mark.parametrize("model", SERVED)
def test_answers_are_pytorchs(zoo, model: str) -> None:
    for request in RECORDED[model]:
        reply = ask(zoo, model, named(zoo, model, request))
        assert_same(model, reply, request.outputs)


@pytest.mark.parametrize("instances", [1, 3])
def test_answers_of_many_clients_are_pytorchs(zoo, three_instances, instances: int) -> None:
    server = {1: zoo, 3: three_instances}[instances]
    datatypes = {model: {row["name"]: row["datatype"] for row in metadata(server, model)["inputs"]} for model in SERVED}

    def client(number: int) -> None:
        random = np.random.default_rng(number)
        for _ in range(REQUESTS):
            for model in SERVED:
                chosen = [RECORDED[model][random.integers(len(RECORDED[model]))]]
                if model in BATCHED:
                    rows = random.integers(1, 5)
                    chosen = [RECORDED[model][i] for i in random.integers(len(RECORDED[model]), size=rows)]
                whole = joined(chosen) if model in BATCHED and chosen[0].inputs else chosen[0]
                inputs = [(name, row_by_row(model, array), datatypes[model][name]) for name, array in whole.inputs]
                reply = ask(server, model, inputs)
                assert_same(model, reply, whole.outputs)

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
