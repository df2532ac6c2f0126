"""Triton's generate extension and KServe's V1 protocol, as bytes."""

import gzip
import json

import pytest

import samples
from server import wait_until


def generate(server, model: str, body, stream=False):
    return server.call("POST", f"/v2/models/{model}/generate{'_stream' if stream else ''}", body)


def test_generate_maps_keys_to_inputs_and_flattens(server):
    reply = generate(server, "identity_str_one", {"INPUT0": "x"})
    assert reply.status == 200
    body = reply.json()
    assert (body["model_name"], body["model_version"], body["OUTPUT0"]) == ("identity_str_one", "1", "x")


def test_generate_with_an_array(server):
    assert generate(server, "identity_str", {"INPUT0": ["a", "b"]}).json()["OUTPUT0"] == ["a", "b"]


def test_generate_id_and_parameters(server):
    body = {"INPUT0": 5, "id": "g-1", "parameters": {"mine": 3}}
    reply = generate(server, "echo_parameters", body)
    assert reply.status == 200, reply
    assert reply.json()["OUTPUT0"] == 5


@pytest.mark.parametrize(
    "body, text",
    [
        ({}, "expected 1 inputs but got 0 inputs"),
        ({"OTHER": "x"}, "expected 1 inputs but got 0 inputs"),
        ({"INPUT0": {"a": 1}}, "Unable to parse 'INPUT0': attempt to access JSON non-string as string"),
        ({"INPUT0": 7}, "Unable to parse 'INPUT0': attempt to access JSON non-string as string"),
        ({"INPUT0": None}, "Unable to parse 'INPUT0': attempt to access JSON non-string as string"),
        ({"INPUT0": "x", "mine": [1]}, "parameter 'mine' has invalid type"),
        ({"INPUT0": "x", "triton_x": 1}, "parameter keys starting with 'triton_' are reserved"),
        (b'{"INPUT0": "x", "INPUT0": "y"}', "input 'INPUT0' already exists in request"),
    ],
)
def test_generate_of_bad_bodies(server, body, text):
    reply = generate(server, "identity_str_one", body)
    assert reply.status == 400
    assert text in reply.error()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff"])
def test_generate_of_no_json(server, body):
    reply = generate(server, "identity_str_one", body)
    assert reply.status == 400 and reply.error()


def test_generate_of_an_unknown_model(server):
    reply = generate(server, "nope", {"INPUT0": "x"})
    assert (reply.status, "unknown model: 'nope'" in reply.error()) == (404, True)


def test_generate_takes_no_compression(server):
    path = "/v2/models/identity_str_one/generate"
    plain = b'{"INPUT0": "x"}'
    # Damaged or not, the body is refused before it is decompressed.
    for coding, body in (("gzip", gzip.compress(plain)), ("gzip", b"damaged"), ("br", plain)):
        reply = server.call("POST", path, body, {"Content-Encoding": coding})
        assert reply.status == 400
        assert reply.error() == "Unsupported content-encoding, only 'identity' is supported."
    reply = server.call("POST", path, plain, {"Content-Encoding": "identity"})
    assert reply.json()["OUTPUT0"] == "x"


def test_generate_stream_is_server_sent_events(server):
    reply = generate(server, "identity_str_one", {"INPUT0": "x"}, stream=True)
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.body.startswith(b"data: {") and reply.body.endswith(b"}\n\n")
    (event,) = reply.body.decode().strip().split("\n\n")
    assert json.loads(event.removeprefix("data: "))["OUTPUT0"] == "x"


def test_generate_stream_error(server):
    """An error is returned before the stream begins or within the stream, but never omitted."""
    reply = generate(server, "fail", {"INPUT0": [-1, 1, 1, 1]}, stream=True)
    assert reply.status == 500
    assert "negative input is not allowed" in reply.error()


def predict(server, model: str, body):
    return server.call("POST", f"/v1/models/{model}:predict", body)


def test_predict_of_one_input_by_instances(server):
    images = [samples.digits()[name] for name in ("digit-0-a", "digit-9-b", "digit-4-a")]
    reply = predict(server, "digits", {"instances": [image[0].tolist() for image, _ in images]})
    assert reply.status == 200, reply
    digits = [row["digit"] for row in reply.json()["predictions"]]
    assert [d[0] if isinstance(d, list) else d for d in digits] == [label for _, label in images]


def test_predict_of_one_output_is_bare(server):
    reply = predict(server, "identity_int32", {"instances": [[1, 2], [3, 4]]})
    assert reply.json() == {"predictions": [[1, 2], [3, 4]]}


def test_predict_of_named_inputs(server):
    rows = [{"INPUT0": list(range(16)), "INPUT1": [1] * 16}, {"INPUT0": [5] * 16, "INPUT1": [2] * 16}]
    first, second = predict(server, "add_sub", {"instances": rows}).json()["predictions"]
    assert (first["OUTPUT1"], second["OUTPUT0"]) == ([n - 1.0 for n in range(16)], [7.0] * 16)


@pytest.mark.parametrize(
    "body, text",
    [
        ({}, "request has neither 'instances' nor 'inputs'"),
        ({"instances": [], "inputs": []}, "request must have either 'instances' or 'inputs'"),
        ({"instances": 7}, "Unable to parse 'instances': attempt to access JSON non-array as array"),
        ({"instances": []}, "inference request batch-size must be >= 1"),
        ({"instances": [[1], [1, 2]]}, "input 'INPUT0' is ragged"),
        ({"instances": [["x"]]}, "attempt to access JSON non-signed-integer as signed-integer for input 'INPUT0'"),
        ({"instances": [{"X": 1}]}, "'X'"),
        ([], "Unable to parse 'request': attempt to access JSON non-object as object"),
    ],
)
def test_predict_of_bad_bodies(server, body, text):
    reply = predict(server, "identity_int32", body)
    assert reply.status == 400
    assert text in reply.error()


def test_predict_of_columns(server):
    columns = {"INPUT0": [list(range(16))], "INPUT1": [[1] * 16]}
    (row,) = predict(server, "add_sub", {"inputs": columns}).json()["predictions"]
    assert row["OUTPUT0"] == [n + 1.0 for n in range(16)]


def test_predict_of_base64(server):
    assert predict(server, "identity_str", {"instances": [{"b64": "aGk="}]}).json() == {"predictions": ["hi"]}


def test_predict_of_an_unknown_model(server):
    assert predict(server, "nope", {"instances": [[1]]}).status == 404


def test_v1_liveness(server):
    reply = server.call("GET", "/")
    assert (reply.status, reply.json()) == (200, {"status": "alive"})


@pytest.mark.parametrize(
    "path, status, word",
    [("/v1/models/digits:explain", 501, "explainer"), ("/v1/chat/completions", 404, "OpenAI")],
)
def test_unsupported_paths_are_refused_with_a_reason(server, path, status, word):
    reply = server.call("POST", path, b"{}")
    assert (reply.status, word in reply.error()) == (status, True), reply


def test_v1_model_list_and_readiness(server):
    assert "digits" in server.call("GET", "/v1/models").json()["models"]
    reply = server.call("GET", "/v1/models/digits")
    assert (reply.status, reply.json()["ready"]) == (200, True)
    assert server.call("GET", "/v1/models/nope").status == 404


def test_client_that_closes_a_stream_does_not_harm_the_server(server):
    import socket

    body = json.dumps({"INPUT0": 1})
    head = f"POST /v2/models/slow/generate_stream HTTP/1.1\r\nHost: models.tests\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.http_port)) as connection:
        connection.sendall((head + body).encode())
    wait_until(lambda: server.call("GET", "/v2/health/live").status == 200, 5, "the server is live")
    assert generate(server, "identity_str_one", {"INPUT0": "y"}).json()["OUTPUT0"] == "y"
