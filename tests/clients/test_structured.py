"""Models that return or take more than tensors, as clients see them."""

import shutil
from pathlib import Path

import pytest

from server import ROOT
from wire import request, tensor

MODELS = ROOT / "runtime" / "torch" / "tests" / "models"


def repository(folder: Path, *names: str) -> Path:
    """Creates a repository of models without a configuration."""
    for name in names:
        version = folder / "repository" / name / "1"
        version.mkdir(parents=True)
        shutil.copy(MODELS / f"{name}.pt", version / "model.pt")
    return folder / "repository"


def configure(folder: Path, name: str, text: str) -> None:
    (folder / "repository" / name / "config.pbtxt").write_text(text)


def test_dict_and_nested_outputs_have_names(start, tmp_path):
    server = start([repository(tmp_path, "segmentation", "lstm")])
    metadata = server.call("GET", "/v2/models/segmentation").json()
    assert [output["name"] for output in metadata["outputs"]] == ["out", "aux"]
    reply = server.infer("segmentation", request(tensor("x", "FP32", [1, 2], [1, 2])))
    assert {name: one["data"] for name, one in reply.outputs().items()} == {"out": [2, 4], "aux": [2, 3]}
    asked = request(tensor("x", "FP32", [1, 2], [1, 2]), outputs=[{"name": "aux"}])
    assert list(server.infer("segmentation", asked).outputs()) == ["aux"]
    reply = server.infer("lstm", request(tensor("x", "FP32", [1, 1], [1])))
    assert list(reply.outputs()) == ["OUTPUT__0", "OUTPUT__1.0", "OUTPUT__1.1"]


def test_fields_of_a_named_tuple_have_their_names(start, tmp_path):
    server = start([repository(tmp_path, "fields")])
    metadata = server.call("GET", "/v2/models/fields").json()
    assert [output["name"] for output in metadata["outputs"]] == ["left", "right"]
    reply = server.infer("fields", request(tensor("x", "FP32", [1, 2], [1, 2])))
    assert {name: one["data"] for name, one in reply.outputs().items()} == {"left": [0, 1], "right": [2, 3]}


def test_nested_outputs_have_dotted_names(start, tmp_path):
    """Traces of segmentation and language models return such outputs."""
    past = [f"past.{layer}.{part}" for layer in range(2) for part in range(2)]
    expected = {"dict_traced": ["out", "aux"], "dict_of_tuples": ["logits.0.0", "logits.0.1", *past]}
    server = start([repository(tmp_path, *expected)])
    for model, names in expected.items():
        metadata = server.call("GET", f"/v2/models/{model}").json()
        assert [output["name"] for output in metadata["outputs"]] == names
    outputs = server.infer("dict_of_tuples", request(tensor("x", "FP32", [1, 2], [1, 2]))).outputs()
    assert [outputs[name]["data"] for name in past] == [[1, 2], [2, 3], [3, 4], [4, 5]]


def test_a_list_may_have_fewer_tensors_than_there_are_outputs(start, tmp_path):
    models = repository(tmp_path, "split")
    text = """
        platform: "pytorch_libtorch" max_batch_size: 0
        input { name: "x" data_type: TYPE_FP32 dims: [ -1, 1 ] }
        output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ -1 ] }
        output { name: "OUTPUT__1" data_type: TYPE_FP32 dims: [ -1 ] }
        """
    configure(tmp_path, "split", text)
    server = start([models])
    for rows, expected in ([5], [[5], []]), ([5, 6], [[5], [6]]):
        reply = server.infer("split", request(tensor("x", "FP32", [len(rows), 1], rows)))
        assert [one["data"] for one in reply.outputs().values()] == expected


def test_numbers_and_strings_are_tensors_of_one_element(start, tmp_path):
    server = start([repository(tmp_path, "settings", "numbers")])
    x = tensor("x", "FP32", [1, 2], [1, 2])
    times = tensor("times", "INT64", [1], [3])
    assert server.infer("settings", request(x, times)).outputs()["OUTPUT__0"]["data"] == [3, 6]
    more = [
        tensor("scale", "FP64", [1], [0.5]),
        tensor("negate", "BOOL", [1], [True]),
        tensor("word", "BYTES", [1], ["longer"]),
    ]
    reply = server.infer("settings", request(x, times, *more))
    assert reply.outputs()["OUTPUT__0"]["data"] == [-3.5, -5]
    reply = server.infer("settings", request(x))
    assert reply.status == 400, reply.body
    outputs = server.infer("numbers", request(tensor("x", "FP32", [2, 2], [1, 2, 3, 4]))).outputs()
    values = [(one["datatype"], one["shape"], one["data"]) for one in outputs.values()]
    assert values[:4] == [
        ("INT64", [1], [10]),
        ("FP64", [1], [10]),
        ("BOOL", [1], [True]),
        ("BYTES", [1], ["sum"]),
    ]


def test_a_detector_takes_an_image(start, tmp_path):
    server = start([repository(tmp_path, "detector")])
    pixels = [at * 7 % 101 / 101 for at in range(3 * 48 * 40)]
    reply = server.infer("detector", request(tensor("images", "FP32", [3, 48, 40], pixels)))
    outputs = reply.outputs()
    assert list(outputs) == ["boxes", "labels", "scores"]
    assert outputs["labels"]["data"] == [2] * 6
    # torchvision's own result, as printed by runtime/torch/tests/models/generate.py.
    assert outputs["scores"]["data"][0] == pytest.approx(0.3295188, abs=1e-4)


def test_a_missing_key_fails_the_request_with_what_was_returned(start, tmp_path):
    models = repository(tmp_path, "moody_dict")
    text = """
        platform: "pytorch_libtorch" max_batch_size: 4
        input { name: "x" data_type: TYPE_FP32 dims: 1 }
        output { name: "low" data_type: TYPE_FP32 dims: 1 }
        output { name: "high" data_type: TYPE_FP32 dims: 1 }
        """
    configure(tmp_path, "moody_dict", text)
    server = start([models])
    reply = server.infer("moody_dict", request(tensor("x", "FP32", [1, 1], [11])))
    assert reply.status == 200, reply.body
    assert reply.outputs()["high"]["data"] == [22]
    reply = server.infer("moody_dict", request(tensor("x", "FP32", [1, 1], [1])))
    assert reply.status == 500, reply.body
    assert "no output 'high' for this input, only low" in reply.error()


def test_a_method_is_chosen_by_parameter(start, tmp_path):
    models = repository(tmp_path, "methods")
    text = 'platform: "pytorch_libtorch" parameters { key: "method" value { string_value: "encode" } }'
    configure(tmp_path, "methods", text)
    reply = start([models]).infer("methods", request(tensor("x", "FP32", [1, 1], [1.5])))
    assert reply.outputs()["OUTPUT__0"]["data"] == [15]


@pytest.mark.parametrize("name", ["returns_none", "returns_any", "returns_future", "returns_class", "spectrum"])
def test_unsupported_outputs_are_refused_at_load(start, tmp_path, name):
    server = start([repository(tmp_path, name)], "--model-control-mode=explicit")
    reply = server.call("POST", f"/v2/repository/models/{name}/load")
    assert reply.status == 400, reply.body
    assert "return" in reply.error()
    assert "config.pbtxt" not in reply.error() or name == "spectrum"
    assert server.call("GET", f"/v2/models/{name}/ready").status != 200
