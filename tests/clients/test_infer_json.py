"""Inference with JSON bodies, at the level of bytes."""

import json
import math

import pytest

import samples
import wire
from wire import request, tensor


DEPTH = "JSON nesting depth exceeds maximum allowed limit (100)"


def identity(server, datatype: str, shape, data, **more):
    return server.infer(
        f"identity_{datatype.lower()}", request(tensor("INPUT0", datatype, shape, data), **more)
    )


def data_of(reply) -> list:
    return reply.outputs()["OUTPUT0"]["data"]


def test_response_has_tritons_form(server):
    reply = server.infer("add_sub", wire.add_sub())
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert wire.HEADER_LENGTH.lower() not in reply.headers
    body = reply.json()
    assert (body["model_name"], body["model_version"]) == ("add_sub", "1")
    assert "id" not in body
    assert body["outputs"] == [
        {"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 16], "data": list(range(1, 17))},
        {"name": "OUTPUT1", "datatype": "FP32", "shape": [1, 16], "data": list(range(-1, 15))},
    ]


@pytest.mark.parametrize("id", ["x", "", "\u00e4\u00f6 \"quoted\" \\"])
def test_id_is_echoed_only_when_given(server, id):
    body = server.infer("add_sub", {**wire.add_sub(), "id": id}).json()
    assert body.get("id", "") == id


def test_output_data_is_flat(server):
    reply = identity(server, "INT32", [2, 2], [[1, 2], [3, 4]])
    assert reply.outputs()["OUTPUT0"]["shape"] == [2, 2]
    assert data_of(reply) == [1, 2, 3, 4]


@pytest.mark.parametrize("depth", [120, 250_000])
@pytest.mark.parametrize("where", ["data", "parameters", "unknown"])
def test_nesting_too_deep_is_refused(server, depth, where):
    nested = "[" * depth + "1" + "]" * depth
    body = {
        "data": '{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":%s}]}',
        "parameters": '{"parameters":{"a":%s},"inputs":[]}',
        "unknown": '{"whatever":%s,"inputs":[]}',
    }[where]
    reply = server.infer("identity_fp32", (body % nested).encode())
    assert reply.status == 400
    # A parameter must not be an array, so its depth is not checked.
    text = "parameter 'a' has invalid type" if where == "parameters" else DEPTH
    assert text in reply.error() or DEPTH in reply.error()


@pytest.mark.parametrize(
    "datatype", [name for name in wire.NUMPY if name not in wire.BINARY_ONLY]
)
def test_every_json_datatype_comes_back_equal(server, datatype):
    sent = samples.of(datatype)
    reply = identity(server, datatype, sent.shape, sent.flatten().tolist())
    output = reply.outputs()["OUTPUT0"]
    assert (output["datatype"], output["shape"]) == (datatype, list(sent.shape))
    got = wire.np.array(output["data"], dtype=sent.dtype)
    assert got.tobytes() == sent.tobytes()


@pytest.mark.parametrize("datatype", wire.BINARY_ONLY)
def test_half_precision_is_refused_as_json_input(server, datatype):
    reply = identity(server, datatype, [1, 1], [1.0])
    assert reply.status == 400
    assert (
        f"receiving {datatype} data via JSON is not supported. Please use the binary data format "
        "for input INPUT0" in reply.error()
    )


@pytest.mark.parametrize("datatype", wire.BINARY_ONLY)
def test_half_precision_is_refused_as_json_output(server, datatype):
    header = request(tensor("INPUT0", datatype, [1, 1], binary_data_size=2))
    reply = server.infer(f"identity_{datatype.lower()}", *wire.binary(header, b"\0\0"))
    assert reply.status == 400
    assert (
        f"sending {datatype} data via JSON is not supported. Please use the binary data format "
        "for output OUTPUT0" in reply.error()
    )


@pytest.mark.parametrize(
    "datatype, text",
    [
        ("UINT64", str(2**64 - 1)),
        ("UINT64", str(2**53 + 1)),
        ("INT64", str(-(2**63))),
        ("INT64", str(2**63 - 1)),
    ],
)
def test_64_bit_integers_are_exact(server, datatype, text):
    body = request(tensor("INPUT0", datatype, [1, 1], [int(text)]))
    reply = server.infer(f"identity_{datatype.lower()}", body)
    assert f"[{text}]".encode() in reply.body.replace(b" ", b"")


@pytest.mark.parametrize(
    "datatype, value",
    [
        ("INT8", 300),
        ("INT8", -129),
        ("UINT8", -1),
        ("UINT8", 256),
        ("INT16", 40000),
        ("UINT16", 65536),
        ("INT32", 2**31),
        ("UINT32", -1),
        ("INT64", 2**63),
        ("UINT64", 2**64),
        ("UINT64", -1),
    ],
)
def test_integers_out_of_range_are_refused(server, datatype, value):
    reply = identity(server, datatype, [1, 1], [value])
    assert reply.status == 400
    assert "INPUT0" in reply.error()


@pytest.mark.parametrize(
    "datatype, value",
    [
        ("BOOL", 1),
        ("BOOL", 0),
        ("BOOL", "true"),
        ("INT32", 1.5),
        ("INT32", "1"),
        ("INT32", True),
        ("INT32", None),
        ("FP32", "1.0"),
        ("FP32", True),
        ("FP32", None),
        ("FP32", {}),
        ("UINT64", 1e3),
    ],
)
def test_values_of_another_type_are_refused(server, datatype, value):
    reply = identity(server, datatype, [1, 1], [value])
    assert reply.status == 400
    assert reply.error().startswith("Unable to parse 'data': attempt to access JSON non-")
    assert reply.error().endswith(" for input 'INPUT0'")


@pytest.mark.parametrize(
    "data, text",
    [(["x"] * 16, "attempt to access JSON non-number as double"), ([0] * 15, "Shape does not match true shape")],
)
def test_error_names_the_invalid_input(server, data, text):
    good = tensor("INPUT0", "FP32", [1, 16], [0] * 16)
    reply = server.infer("add_sub", request(good, tensor("INPUT1", "FP32", [1, 16], data)))
    assert reply.status == 400
    assert text in reply.error() and reply.error().endswith("for input 'INPUT1'")


def test_integers_are_taken_as_floats(server):
    assert data_of(identity(server, "FP64", [1, 3], [1, -2, 10**20])) == [1.0, -2.0, 1e20]


def test_nan_and_infinity_out_are_bare_words(server):
    reply = server.infer("nan_inf", request(tensor("INPUT0", "FP32", [1, 4], [0] * 4)))
    for word in (b"NaN", b"Infinity", b"-Infinity"):
        assert word in reply.body and b'"' + word + b'"' not in reply.body
    nan, *rest = data_of(reply)
    assert math.isnan(nan) and rest == [math.inf, -math.inf, 1.5]


@pytest.mark.parametrize(
    "text, value",
    [("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf), ("Inf", math.inf)],
)
@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_nan_and_infinity_in_are_bare_words(server, datatype, text, value):
    body = f'{{"inputs":[{{"name":"INPUT0","shape":[1,1],"datatype":"{datatype}","data":[{text}]}}]}}'
    (got,) = data_of(server.infer(f"identity_{datatype.lower()}", body.encode()))
    assert got == value or (math.isnan(got) and math.isnan(value))


def test_float_that_overflows_its_type(server):
    """The number is rounded to infinity, as in every IEEE conversion. A parse error is valid, too; a crash is not."""
    reply = identity(server, "FP32", [1, 1], [1e300])
    assert reply.status == 400 or data_of(reply) == [math.inf]


@pytest.mark.parametrize("count", [2, 17])
def test_float_text_reads_back_as_the_same_number(server, count):
    values = [(n + 1) / 3 for n in range(count)]
    assert data_of(identity(server, "FP64", [1, count], values)) == values


@pytest.mark.parametrize(
    "elements",
    [["a", "\u00e9", ""], ["\u0000", "\U0001f600", "line\nbreak \"quote\" \\"], []],
)
def test_byte_strings(server, elements):
    body = request(tensor("INPUT0", "BYTES", [len(elements)], elements))
    assert server.infer("identity_str", body).outputs()["OUTPUT0"]["data"] == elements


def test_escapes_in_names_and_strings(server):
    body = (
        rb'{"\u0069nputs":[{"n\u0061me":"\u0049NPUT0","shape":[2],"datatype":"BYTES",'
        rb'"data":["\ud83d\ude00","\u0041\/\b"]}]}'
    )
    data = server.infer("identity_str", body).outputs()["OUTPUT0"]["data"]
    assert data == ["\U0001f600", "A/\b"]


def test_bytes_that_are_not_text_are_refused_as_json(server):
    blob = wire.strings(b"\xff\xfe")
    header = request(
        tensor("INPUT0", "BYTES", [1], binary_data_size=len(blob)), outputs=[{"name": "OUTPUT0"}]
    )
    reply = server.infer("identity_str", *wire.binary(header, blob))
    assert reply.status == 400
    assert "OUTPUT0" in reply.error() and "binary" in reply.error()


def test_white_space_order_and_unknown_fields_do_not_matter(server):
    body = (
        b' \r\n\t{ "unknown" : [ { "x" : null } ] , "inputs" : [ { "data" : [ 1 , 2 ] , "extra" : {} ,'
        b' "datatype" : "INT32" , "shape" : [ 1 , 2 ] , "name" : "INPUT0" } ] } \n '
    )
    assert data_of(server.infer("identity_int32", body)) == [1, 2]


@pytest.mark.parametrize("shape", [[1, 0], [4, 0]])
def test_no_elements(server, shape):
    output = identity(server, "FP32", shape, []).outputs()["OUTPUT0"]
    assert (output["shape"], output["data"]) == (shape, [])


def test_version_in_the_path(server):
    body = request(tensor("INPUT0", "INT32", [1, 1], [5]))
    reply = server.infer("all_versions", body, version="2")
    assert (reply.json()["model_version"], data_of(reply)) == ("2", [7])


@pytest.mark.parametrize("value", [1, -5, "text", True, 0.5])
def test_parameters_of_every_scalar_type(server, value):
    body = request(tensor("INPUT0", "INT32", [1, 1], [5]), parameters={"mine": value})
    reply = server.infer("echo_parameters", body)
    assert reply.json()["parameters"]["mine"] == value
    assert data_of(reply) == [5]


@pytest.mark.parametrize("value", [{}, [], [1], {"a": 1}])
def test_parameters_that_are_no_scalar(server, value):
    reply = server.infer("add_sub", {**wire.add_sub(), "parameters": {"mine": value}})
    assert reply.status == 400
    assert "parameter 'mine' has invalid type" in reply.error()


def test_reserved_parameters(server):
    reply = server.infer("add_sub", {**wire.add_sub(), "parameters": {"triton_x": 1}})
    assert reply.status == 400
    assert "parameter keys starting with 'triton_' are reserved for Triton usage" in reply.error()


@pytest.mark.parametrize("key, value", [("priority", "high"), ("priority", -1), ("timeout", "soon")])
def test_reserved_parameters_of_the_wrong_type(server, key, value):
    reply = server.infer("add_sub", {**wire.add_sub(), "parameters": {key: value}})
    assert reply.status == 400
    assert key in reply.error()


def test_classification(server):
    body = request(
        tensor("INPUT0", "FP32", [1, 10], [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]),
        outputs=[{"name": "OUTPUT0", "parameters": {"classification": 2}}],
    )
    output = server.infer("labels", body).outputs()["OUTPUT0"]
    assert (output["datatype"], output["shape"]) == ("BYTES", [1, 2])
    assert output["data"] == ["9.000000:1:bee", "8.000000:3:dog"]


def test_chunked_request(server):
    body = json.dumps(wire.add_sub()).encode()
    chunks = iter([body[n : n + 7] for n in range(0, len(body), 7)])
    # http.client sends a body from an iterator, whose length is unknown, in chunks.
    reply = server.infer("add_sub", chunks)
    assert data_of(reply) == list(range(1, 17))


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/octet-stream"])
def test_content_type_is_ignored(server, content_type):
    reply = server.infer("add_sub", wire.add_sub(), {"Content-Type": content_type})
    assert data_of(reply) == list(range(1, 17))


def test_many_requests_on_one_connection(server):
    connection = wire.Connection(server.http_port, timeout=30)
    for n in range(50):
        body = json.dumps(request(tensor("INPUT0", "INT32", [1, 1], [n])))
        connection.request("POST", "/v2/models/identity_int32/infer", body)
        response = connection.getresponse()
        assert json.loads(response.read())["outputs"][0]["data"] == [n]
    connection.close()


def test_pipelined_requests_are_answered_in_order(server):
    def one(n: int) -> bytes:
        body = json.dumps(request(tensor("INPUT0", "INT32", [1, 1], [n]))).encode()
        head = f"POST /v2/models/identity_int32/infer HTTP/1.1\r\nHost: models.tests\r\nContent-Length: {len(body)}\r\n"
        return head.encode() + (b"Connection: close\r\n" if n == 2 else b"") + b"\r\n" + body

    import socket

    with socket.create_connection(("127.0.0.1", server.http_port), timeout=10) as connection:
        connection.sendall(one(0) + one(1) + one(2))
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    places = [answer.index(b'"data":[%d]' % n) for n in range(3)]
    assert places == sorted(places)
