"""The KServe SDK's REST and gRPC clients."""

import asyncio

import httpx
import numpy as np
import pytest
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig

import samples


def rest(server, work, protocol="v2"):
    """Runs `work(client, url)` on a REST client."""

    async def run():
        async with InferenceRESTClient(RESTConfig(protocol=protocol)) as client:
            return await work(client, f"http://{server.http}")

    return asyncio.run(run())


def over_grpc(server, work):
    async def run():
        async with InferenceGRPCClient(server.grpc) as client:
            return await work(client)

    return asyncio.run(run())


def add_sub(binary: bool) -> InferRequest:
    rows = [InferInput(name, [1, 16], "FP32") for name in ("INPUT0", "INPUT1")]
    rows[0].set_data_from_numpy(np.arange(16, dtype=np.float32)[None], binary_data=binary)
    rows[1].set_data_from_numpy(np.ones((1, 16), dtype=np.float32), binary_data=binary)
    return InferRequest("add_sub", rows, request_id="sdk-1")


def test_rest_live_and_ready(server):
    assert rest(server, lambda client, url: client.is_server_live(url)) is True
    assert rest(server, lambda client, url: client.is_server_ready(url)) is True


@pytest.mark.parametrize("model, ready", [("add_sub", True), ("digits", True), ("nope", False)])
def test_rest_model_ready(server, model, ready):
    work = lambda client, url: client.is_model_ready(url, model)  # noqa: E731
    try:
        assert bool(rest(server, work)) is ready
    except httpx.HTTPStatusError as error:
        assert not ready and error.response.status_code == 404


@pytest.mark.parametrize("binary", [True, False])
def test_rest_infer(server, binary):
    answer = rest(server, lambda client, url: client.infer(url, add_sub(binary), model_name="add_sub"))
    assert answer.id == "sdk-1" and answer.model_name == "add_sub"
    np.testing.assert_array_equal(
        answer.get_output_by_name("OUTPUT0").as_numpy().reshape(-1), np.arange(1, 17)
    )
    np.testing.assert_array_equal(
        answer.get_output_by_name("OUTPUT1").as_numpy().reshape(-1), np.arange(-1, 15)
    )


def test_rest_infer_of_a_dict(server):
    image, label = samples.digits()["digit-7-a"]
    row = {"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": image.flatten().tolist()}
    answer = rest(server, lambda client, url: client.infer(url, {"inputs": [row]}, model_name="digits"))
    assert answer.get_output_by_name("digit").as_numpy().tolist() == [[label]]


def test_rest_error_carries_our_sentence(server):
    with pytest.raises(httpx.HTTPStatusError) as raised:
        rest(server, lambda client, url: client.infer(url, add_sub(True), model_name="nope"))
    assert raised.value.response.status_code == 404
    assert "Request for unknown model: 'nope' is not found" in str(raised.value)


def test_rest_strings(server):
    row = InferInput("INPUT0", [2], "BYTES")
    row.set_data_from_numpy(np.array([b"one", "zw\u00f6lf".encode()], dtype=np.object_), binary_data=True)
    request = InferRequest("identity_str", [row])
    answer = rest(server, lambda client, url: client.infer(url, request, model_name="identity_str"))
    got = answer.get_output_by_name("OUTPUT0").as_numpy().tolist()
    assert [e.encode() if isinstance(e, str) else e for e in got] == [b"one", "zw\u00f6lf".encode()]


def test_grpc_live_and_ready(server):
    assert over_grpc(server, lambda client: client.is_server_live()) is True
    assert over_grpc(server, lambda client: client.is_server_ready()) is True


@pytest.mark.parametrize("model, ready", [("add_sub", True), ("digits", True), ("nope", False)])
def test_grpc_model_ready(server, model, ready):
    assert over_grpc(server, lambda client: client.is_model_ready(model)) is ready


@pytest.mark.parametrize("binary", [True, False])
def test_grpc_infer(server, binary):
    answer = over_grpc(server, lambda client: client.infer(add_sub(binary)))
    np.testing.assert_array_equal(
        answer.get_output_by_name("OUTPUT0").as_numpy().reshape(-1), np.arange(1, 17)
    )


def test_grpc_digits(server):
    for image, label in list(samples.digits().values())[:5]:
        row = InferInput("image", [1, 1, 8, 8], "FP32")
        row.set_data_from_numpy(image, binary_data=True)
        request = InferRequest("digits", [row])
        answer = over_grpc(server, lambda client, request=request: client.infer(request))
        assert answer.get_output_by_name("digit").as_numpy().reshape(-1).tolist() == [label]


def test_v1_predict(server):
    image, label = samples.digits()["digit-3-b"]
    answer = rest(
        server,
        lambda client, url: client.infer(url, {"instances": image.tolist()}, model_name="digits"),
        protocol="v1",
    )
    (prediction,) = answer["predictions"]
    assert prediction["digit"] in (label, [label])
    assert int(np.argmax(prediction["logits"])) == label


def test_v1_model_ready(server):
    work = lambda client, url: client.is_model_ready(url, "digits")  # noqa: E731
    assert rest(server, work, protocol="v1") is True
