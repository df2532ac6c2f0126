"""The KServe SDK's REST and gRPC clients."""

import json
import subprocess
import sys

import numpy as np
import pytest

import samples
from server import HERE


@pytest.fixture(scope="module")
def sdk():
    """Returns a function that calls a function of kserve_worker.py and returns its `["ok", result]` or `["error", …]`.
    """
    worker = subprocess.Popen(
        [sys.executable, "-W", "ignore", HERE / "kserve_worker.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def call(*line):
        worker.stdin.write(json.dumps(line) + "\n")
        worker.stdin.flush()
        return json.loads(worker.stdout.readline())

    yield call
    worker.stdin.close()
    assert worker.wait(20) == 0
    worker.stdout.close()


@pytest.fixture
def url(server):
    return f"http://{server.http}"


ADD_SUB = [["INPUT0", "FP32", [list(range(16))]], ["INPUT1", "FP32", [[1] * 16]]]
SUMS = {"OUTPUT0": list(range(1, 17)), "OUTPUT1": list(range(-1, 15))}


@pytest.mark.parametrize("method", ["is_server_live", "is_server_ready"])
def test_rest_health(sdk, url, method):
    assert sdk("rest_state", url, "v2", method) == ["ok", True]


@pytest.mark.parametrize("model, ready", [("add_sub", True), ("digits", True), ("nope", False)])
def test_rest_model_ready(sdk, url, model, ready):
    assert sdk("rest_state", url, "v2", "is_model_ready", model) == ["ok", ready]


@pytest.mark.parametrize("binary", [True, False])
def test_rest_infer(sdk, url, binary):
    expected = {"id": "sdk-1", "model": "add_sub", "outputs": SUMS}
    assert sdk("rest_infer", url, "add_sub", ADD_SUB, binary) == ["ok", expected]


@pytest.mark.parametrize("binary", [True, False])
def test_rest_strings(sdk, url, binary):
    rows = [["INPUT0", "BYTES", ["one", "zw\u00f6lf"]]]
    state, result = sdk("rest_infer", url, "identity_str", rows, binary)
    assert (state, result["outputs"]) == ("ok", {"OUTPUT0": ["one", "zw\u00f6lf"]})


@pytest.mark.parametrize("name", ["digit-7-a", "digit-1-b"])
def test_rest_infer_of_a_dict(sdk, url, name):
    image, label = samples.digits()[name]
    row = {"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": image.flatten().tolist()}
    state, result = sdk("rest_infer_dict", url, "v2", "digits", {"inputs": [row]})
    assert (state, result["outputs"]["digit"]) == ("ok", [label])


def test_rest_error_has_the_servers_message(sdk, url):
    state, kind, text = sdk("rest_infer", url, "nope", ADD_SUB, True)
    assert (state, kind) == ("error", "HTTPStatusError")
    assert "Request for unknown model: 'nope' is not found" in text and "404" in text


@pytest.mark.parametrize("method", ["is_server_live", "is_server_ready"])
def test_grpc_health(sdk, server, method):
    assert sdk("grpc_state", server.grpc, method) == ["ok", True]


@pytest.mark.parametrize("model, ready", [("add_sub", True), ("digits", True), ("nope", False)])
def test_grpc_model_ready(sdk, server, model, ready):
    assert sdk("grpc_state", server.grpc, "is_model_ready", model) == ["ok", ready]


@pytest.mark.parametrize("binary", [True, False])
def test_grpc_infer(sdk, server, binary):
    state, result = sdk("grpc_infer", server.grpc, "add_sub", ADD_SUB, binary)
    assert (state, result["outputs"]) == ("ok", SUMS)


def test_grpc_digits(sdk, server):
    for image, label in list(samples.digits().values())[:5]:
        rows = [["image", "FP32", image.tolist()]]
        state, result = sdk("grpc_infer", server.grpc, "digits", rows, True)
        assert (state, result["outputs"]["digit"]) == ("ok", [label])


def test_grpc_error(sdk, server):
    state, kind, text = sdk("grpc_infer", server.grpc, "nope", ADD_SUB, True)
    assert state == "error" and "Request for unknown model: 'nope' is not found" in text, kind


def test_v1_predict(sdk, url):
    image, label = samples.digits()["digit-3-b"]
    body = {"instances": image.tolist()}
    state, result = sdk("rest_infer_dict", url, "v1", "digits", body)
    assert state == "ok", result
    (prediction,) = result["predictions"]
    assert prediction["digit"] in (label, [label])
    assert int(np.argmax(prediction["logits"])) == label


def test_v1_model_ready(sdk, url):
    assert sdk("rest_state", url, "v1", "is_model_ready", "digits") == ["ok", True]
