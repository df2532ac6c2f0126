"""Invalid HTTP requests: the error names the defect, and the server keeps serving."""

import json

import pytest

import wire
from stopwatch import Stopwatch
from wire import request, tensor


@pytest.fixture(autouse=True)
def keeps_serving(server):
    """Checks that a valid request succeeds after every test of this file."""
    yield
    reply = server.infer("add_sub", wire.add_sub())
    assert reply.outputs()["OUTPUT1"]["data"] == list(range(-1, 15))


def refused(server, model: str, body, text: str, status: int = 400) -> None:
    reply = server.infer(model, body)
    assert reply.status == status, reply
    assert text in reply.error()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"not json",
        b'{"inputs":[}',
        b'{"inputs":[]} trailing',
        b'{"inputs":[],}',
        b"\x00\x01\x02",
        b'{"id":"\xff\xfe","inputs":[]}',
        b'{"id":"\\ud800","inputs":[]}',
        b'{"id":"a\nb","inputs":[]}',
        b'{"inputs":[{"name":"INPUT0"',
        b"\xef\xbb\xbf{",
        b"[" * 50,
    ],
)
def test_body_that_is_not_json(server, body):
    refused(server, "add_sub", body, "failed to parse the request JSON buffer")


@pytest.mark.parametrize(
    "body, text",
    [
        ({}, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
        ([], "Unable to parse 'request': attempt to access JSON non-object as object"),
        ("text", "Unable to parse 'request': attempt to access JSON non-object as object"),
        (None, "Unable to parse 'request': attempt to access JSON non-object as object"),
        ({"inputs": {}}, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
        ({"inputs": None}, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
        ({"inputs": [1]}, "Unable to parse 'inputs': attempt to access JSON non-object as object"),
        ({"inputs": [{}]}, "Unable to parse 'name': attempt to access non-existing object member 'name'"),
        ({"inputs": [{"shape": [1], "datatype": "FP32", "data": [1]}]}, "Unable to parse 'name'"),
        ({"inputs": [{"name": 1}]}, "Unable to parse 'name': attempt to access JSON non-string as string"),
        ({"inputs": [{"name": "INPUT0"}]}, "Unable to parse 'datatype'"),
        ({"inputs": [{"name": "INPUT0", "datatype": "FP32"}]}, "Unable to parse 'shape'"),
        ({"inputs": [{"name": "INPUT0", "datatype": "FP32", "data": [1]}]}, "Unable to parse 'shape'"),
        ({"inputs": [{"name": "INPUT0", "shape": [1, 1], "data": [1]}]}, "Unable to parse 'datatype'"),
        ({"inputs": [{"name": "INPUT0", "shape": "1", "datatype": "FP32"}]}, "shape"),
        ({"inputs": [{"name": "INPUT0", "shape": [1.5], "datatype": "FP32"}]}, "shape"),
        ({"inputs": [{"name": "INPUT0", "shape": ["1"], "datatype": "FP32"}]}, "shape"),
        ({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP33", "data": [1]}]}, "FP33"),
        ({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "fp32", "data": [1]}]}, "fp32"),
        ({"inputs": [{"name": "INPUT0", "shape": [1, 16], "datatype": 7}]}, "datatype"),
        ({**wire.add_sub(), "outputs": {}}, "outputs"),
        ({**wire.add_sub(), "outputs": [{}]}, "name"),
        ({**wire.add_sub(), "outputs": ["OUTPUT0"]}, "outputs"),
        ({**wire.add_sub(), "id": 7}, "id"),
        ({**wire.add_sub(), "parameters": []}, "parameters"),
    ],
)
def test_fields_missing_or_of_the_wrong_type(server, body, text):
    refused(server, "add_sub", json.dumps(body).encode(), text)


@pytest.mark.parametrize(
    "head", [b'{"parameters":', b'{"inputs":', b'{"outputs":', b'{"other":', b'{"parameters":{"mine":']
)
def test_nesting_beyond_the_limit(server, head):
    body = head + b"[" * 120 + b"]" * 120 + b"}" * head.count(b"{")
    refused(server, "add_sub", body, "JSON nesting depth exceeds maximum allowed limit (100)")


def test_nested_data_up_to_the_limit(server):
    for depth, status in ((50, 200), (120, 400)):
        data = b"[" * depth + b"5" + b"]" * depth
        body = b'{"inputs":[{"name":"INPUT0","datatype":"INT32","shape":[1,1],"data":' + data + b"}]}"
        reply = server.infer("identity_int32", body)
        assert reply.status == status, reply
    assert "JSON nesting depth exceeds maximum allowed limit (100)" in reply.error()


def test_negative_dimension(server):
    refused(server, "add_sub", request(tensor("INPUT0", "FP32", [1, -16], [0] * 16)), "shape")


@pytest.mark.parametrize(
    "shape, text",
    [
        ([2**4, 2**60 + 2], "causes total element count to exceed maximum size of"),
        ([2**32, 2**32], "causes total element count to exceed maximum size of"),
        ([2**62, 0, 2**62], "causes total element count to exceed maximum size of"),
        ([4, 2**60 + 2], "byte size overflow for input 'INPUT0'"),
        ([2**63], "shape [9223372036854775808] contains one or more invalid dimensions"),
        ([2**64], "Unable to parse 'shape': attempt to access JSON non-unsigned-integer"),
        ([10**30], "Unable to parse 'shape': attempt to access JSON non-unsigned-integer"),
    ],
)
def test_dimensions_that_overflow(server, shape, text):
    refused(server, "var2", request(tensor("INPUT0", "FP32", shape, [1])), text)


def test_huge_shape_with_little_data_allocates_nothing(server):
    before = server.allocated_bytes()
    body = request(tensor("INPUT0", "FP64", [1, 2**40], [1.0]))
    refused(server, "identity_fp64", body, "exceeds the maximum allowed value of 67108864 bytes")
    assert server.allocated_bytes() < before + (64 << 20)


@pytest.mark.parametrize("count", [0, 15, 17, 1000])
def test_wrong_count_of_scalars(server, count):
    body = request(tensor("INPUT0", "FP32", [1, 16], [0] * count), tensor("INPUT1", "FP32", [1, 16], [0] * 16))
    refused(
        server,
        "add_sub",
        body,
        "Unable to parse 'data': Shape does not match true shape of 'data' field for input 'INPUT0'",
    )


def test_missing_input(server):
    body = request(tensor("INPUT0", "FP32", [1, 16], [0] * 16))
    refused(
        server,
        "add_sub",
        body,
        "expected 2 inputs but got 1 inputs for model 'add_sub'. Got input(s) ['INPUT0'], but missing "
        "required input(s) ['INPUT1']. Please provide all required input(s).",
    )


def test_no_inputs(server):
    refused(server, "add_sub", {"inputs": []}, "expected 2 inputs but got 0 inputs for model 'add_sub'")


def test_missing_required_input_of_a_model_with_optional_ones(server):
    body = request(tensor("INPUT1", "FP32", [1, 4], [0] * 4))
    refused(server, "optional", body, "INPUT0")


def test_unknown_input(server):
    body = wire.add_sub()
    body["inputs"][1]["name"] = "OTHER"
    refused(server, "add_sub", body, "unexpected inference input 'OTHER' for model 'add_sub'")


def test_unknown_output(server):
    body = {**wire.add_sub(), "outputs": [{"name": "OTHER"}]}
    refused(server, "add_sub", body, "unexpected inference output 'OTHER' for model 'add_sub'")


def test_duplicate_input(server):
    body = wire.add_sub()
    body["inputs"].append(body["inputs"][0])
    refused(server, "add_sub", body, "input 'INPUT0' already exists in request")


def test_duplicate_output(server):
    body = {**wire.add_sub(), "outputs": [{"name": "OUTPUT0"}, {"name": "OUTPUT0"}]}
    refused(server, "add_sub", body, "output 'OUTPUT0' already exists in request")


def test_duplicate_key_is_no_way_around_a_check(server):
    body = (
        b'{"inputs":[{"name":"INPUT0","shape":[1,2],"shape":[1,200000],"datatype":"INT32","data":[1,2]}]}'
    )
    reply = server.infer("identity_int32", body)
    assert reply.status == 400 or reply.outputs()["OUTPUT0"]["data"] == [1, 2]


def test_wrong_datatype(server):
    body = wire.add_sub()
    body["inputs"][0]["datatype"] = "INT32"
    refused(
        server,
        "add_sub",
        body,
        "inference input 'INPUT0' data-type is 'INT32', but model 'add_sub' expects 'FP32'",
    )


@pytest.mark.parametrize("shape, count", [([1, 17], 17), ([1, 1, 16], 16)])
def test_wrong_shape(server, shape, count):
    body = request(
        tensor("INPUT0", "FP32", shape, [0] * count), tensor("INPUT1", "FP32", [1, 16], [0] * 16)
    )
    got = ",".join(map(str, shape))
    refused(
        server,
        "add_sub",
        body,
        f"unexpected shape for input 'INPUT0' for model 'add_sub'. Expected [-1,16], got [{got}]. "
        "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be "
        "prepended to each input shape.",
    )


def test_wrong_shape_of_a_model_without_batches(server):
    body = request(tensor("INPUT0", "FP32", [1, 4], [0] * 4))
    refused(
        server,
        "nobatch",
        body,
        "unexpected shape for input 'INPUT0' for model 'nobatch'. Expected [4], got [1,4]",
    )


def test_no_shape_where_a_batch_dimension_is_needed(server):
    body = request(tensor("INPUT0", "FP32", [], [0]), tensor("INPUT1", "FP32", [1, 16], [0] * 16))
    refused(
        server, "add_sub", body, "input 'INPUT0' has no shape but model requires batch dimension for 'add_sub'"
    )


def test_batch_over_the_limit(server):
    zeros = [0] * 9 * 16
    body = request(tensor("INPUT0", "FP32", [9, 16], zeros), tensor("INPUT1", "FP32", [9, 16], zeros))
    refused(server, "add_sub", body, "inference request batch-size must be <= 8 for 'add_sub'")


def test_empty_batch(server):
    body = request(tensor("INPUT0", "FP32", [0, 16], []), tensor("INPUT1", "FP32", [0, 16], []))
    reply = server.infer("add_sub", body)
    # Both are valid: an empty response to an empty request, or an error.
    if reply.status == 200:
        assert reply.outputs()["OUTPUT0"]["data"] == []
    else:
        assert reply.status == 400 and "batch" in reply.error()


def test_inputs_of_different_batches(server):
    body = request(
        tensor("INPUT0", "FP32", [2, 16], [0] * 32), tensor("INPUT1", "FP32", [1, 16], [0] * 16)
    )
    refused(server, "add_sub", body, "input 'INPUT1' batch size does not match other inputs for 'add_sub'")


def test_two_sources_of_data(server):
    header = request(tensor("INPUT0", "FP32", [1, 1], [1], binary_data_size=4))
    reply = server.infer("identity_fp32", *wire.binary(header, bytes(4)))
    assert reply.status == 400
    assert "Input must set only one of the following fields: 'data', 'binary_data_size'" in reply.error()


def test_no_source_of_data(server):
    body = request(tensor("INPUT0", "FP32", [1, 1]))
    refused(server, "identity_fp32", body, "Input must set only one of the following fields")
    refused(server, "identity_fp32", body, "But no field is set")


@pytest.mark.parametrize("count", [0, -1, "2", 2.5, 2**40])
def test_invalid_class_counts(server, count):
    body = request(
        tensor("INPUT0", "FP32", [1, 10], [0] * 10),
        outputs=[{"name": "OUTPUT0", "parameters": {"classification": count}}],
    )
    reply = server.infer("labels", body)
    if count == 2**40:
        assert reply.outputs()["OUTPUT0"]["shape"] == [1, 10]
    elif count == 0:
        # No classes were requested, so the response is the tensor or an error.
        assert reply.status in (200, 400)
    else:
        assert reply.status == 400 and "classification" in reply.error()


@pytest.mark.parametrize(
    "model", ["nope", "..", "%2e%2e", "..%2fadd_sub", "add_sub%00", "a" * 5000, "%ff%fe", "%zz"]
)
def test_unknown_models(server, model):
    reply = server.call("POST", f"/v2/models/{model}/infer", wire.add_sub())
    assert reply.status in (400, 404)
    assert reply.error()


@pytest.mark.parametrize("version", ["9", "0", "1x", "-1", "18446744073709551616"])
def test_unknown_versions(server, version):
    reply = server.infer("add_sub", wire.add_sub(), version=version)
    assert reply.status == 404
    assert reply.error()


def test_model_that_raises(server):
    bad = request(tensor("INPUT0", "FP32", [1, 4], [1, -1, 1, 1]))
    reply = server.infer("fail", bad)
    assert reply.status == 500
    assert "PyTorch execute failure" in reply.error()
    assert "negative input is not allowed" in reply.error()
    good = server.infer("fail", request(tensor("INPUT0", "FP32", [1, 4], [1, 2, 3, 4])))
    assert good.outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8]


def test_output_without_dimensions_is_one_element(server):
    reply = server.infer("scalar", request(tensor("INPUT0", "FP32", [4], [1] * 4)))
    assert reply.outputs()["OUTPUT0"]["shape"] == [1]
    assert reply.outputs()["OUTPUT0"]["data"] == [4]


def test_shared_memory_is_off_by_default(server):
    reply = server.call("GET", "/v2/systemsharedmemory/status")
    assert reply.status == 501
    assert (
        "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
        in reply.error()
    )
    row = tensor("INPUT0", "FP32", [1, 1], shared_memory_region="r", shared_memory_byte_size=4)
    refused(server, "identity_fp32", request(row), "Client shared memory is disabled", 501)


@pytest.mark.parametrize(
    "head, statuses",
    [
        (b"GET /v2 HTTP/1.1\r\n\r\n", (200, 400)),  # There is no Host header: a lenient 200 is harmless.
        (b"GET /v2 HTTP/9.9\r\nHost: models.tests\r\n\r\n", (400, 505, None)),
        (b"nonsense\r\n\r\n", (400, None)),
        (b"GET  /v2  HTTP/1.1\r\nHost: models.tests\r\n\r\n", (400, None)),
        (b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: models.tests\r\nContent-Length: -5\r\n\r\n", (400,)),
        (b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: models.tests\r\nContent-Length: abc\r\n\r\n", (400,)),
        (
            b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: models.tests\r\nContent-Length: 3\r\n"
            b"Content-Length: 4\r\n\r\nabcd",
            (400,),
        ),
        (
            b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: models.tests\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"zz\r\n",
            (400, None),
        ),
        (b"GET /v2 HTTP/1.1\r\nHost: models.tests\r\nA: " + b"a" * 1_000_000 + b"\r\n\r\n", (400, 431)),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: models.tests\r\n\r\n", (400, 404, 414, 431)),
    ],
)
def test_broken_http(server, head, statuses):
    assert wire.status_of(wire.raw(server.http_port, head, timeout=3)) in statuses


def test_content_length_longer_than_the_body_then_half_closed(server):
    head = b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: models.tests\r\nContent-Length: 500\r\n\r\n{}"
    answer = wire.raw(server.http_port, head, timeout=5, half_close=True)
    assert wire.status_of(answer) in (400, None)


def test_expect_continue(server):
    body = json.dumps(wire.add_sub()).encode()
    head = (
        f"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: models.tests\r\nExpect: 100-continue\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    answer = wire.raw(server.http_port, head.encode() + body)
    assert answer.startswith(b"HTTP/1.1 100 ") or wire.status_of(answer) == 200


REFUSED_EARLY = {
    404: ("/v2/nope", {}),
    405: ("/v2/health/live", {}),
    415: ("/v2/models/add_sub/infer", {"Content-Encoding": "br"}),
    400: ("/v2/models/identity_str_one/generate", {"Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("size", [10, 300_000, 5_000_000])
@pytest.mark.parametrize("status", REFUSED_EARLY)
def test_connection_is_reused_after_an_early_refusal(server, status, size):
    """The request is refused by its head alone. The server still reads the body, and serves the next request on the
    connection."""
    path, headers = REFUSED_EARLY[status]
    connection = wire.Connection(server.http_port, timeout=10)
    for _ in range(2):
        connection.request("POST", path, bytes(size), headers)
        response = connection.getresponse()
        assert (response.status, list(json.loads(response.read()))) == (status, ["error"])
        assert connection.sock is not None
    connection.request("POST", "/v2/models/add_sub/infer", json.dumps(wire.add_sub()))
    assert connection.getresponse().status == 200
    connection.close()


def test_refused_before_the_server_requests_the_body(server):
    head = b"POST /v2/nope HTTP/1.1\r\nHost: models.tests\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    assert wire.status_of(wire.raw(server.http_port, head)) == 404


def test_many_chunks(server):
    """70 000 chunks of one byte are refused, or read without using more memory than a body needs."""
    before = server.allocated_bytes()
    body = b" " * 70_000 + json.dumps(wire.add_sub()).encode()
    chunked = b"".join(b"1\r\n" + body[n : n + 1] + b"\r\n" for n in range(len(body))) + b"0\r\n\r\n"
    head = (
        b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: models.tests\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    assert wire.status_of(wire.raw(server.http_port, head + chunked, timeout=20)) in (200, 400, 413)
    assert server.allocated_bytes() < before + (64 << 20)


def test_slow_client_delays_no_other(server):
    """While one client sends its body slowly, other clients are answered at once."""
    connection = wire.Connection(server.http_port, timeout=10)
    connection.putrequest("POST", "/v2/models/add_sub/infer")
    connection.putheader("Content-Length", "1000")
    connection.endheaders()
    connection.send(b'{"inputs"')
    stopwatch = Stopwatch()
    assert server.infer("add_sub", wire.add_sub()).status == 200
    assert stopwatch.seconds() < 2
    connection.close()


@pytest.mark.parametrize(
    "head, status, what",
    [
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414, "the URL of the request is"),
        (
            b"GET /v2 HTTP/1.1\r\nHost: models.tests\r\nA: " + b"a" * 70_000 + b"\r\n\r\n",
            431,
            "the URL and the headers of the request are together",
        ),
    ],
)
def test_a_head_that_is_too_long_is_refused_with_a_sentence(server, head, status, what):
    answer = wire.raw(server.http_port, head)
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert wire.status_of(answer) == status
    assert body == {"error": f"{what} longer than 64 KiB: send long values in the body"}
