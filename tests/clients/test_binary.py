"""The binary tensor extension and raw requests at the level of bytes; compression."""

import gzip
import json
import struct
import zlib

import numpy as np
import pytest

import samples
import wire
from wire import HEADER_LENGTH, request, tensor

SIXTEEN = np.arange(16, dtype="<f4").tobytes()


def binary_add_sub(**more) -> tuple[bytes, dict]:
    header = request(
        tensor("INPUT0", "FP32", [1, 16], binary_data_size=64),
        tensor("INPUT1", "FP32", [1, 16], binary_data_size=64),
        **more,
    )
    return wire.binary(header, SIXTEEN, SIXTEEN)


def test_binary_both_ways(server):
    reply = server.infer("add_sub", *binary_add_sub(parameters={"binary_data_output": True}))
    assert reply.headers["content-type"] == "application/octet-stream"
    header, data = reply.split()
    assert [o["parameters"] for o in header["outputs"]] == [{"binary_data_size": 64}] * 2
    assert all("data" not in output for output in header["outputs"])
    np.testing.assert_array_equal(np.frombuffer(data[:64], "<f4"), np.arange(16) * 2)
    np.testing.assert_array_equal(np.frombuffer(data[64:], "<f4"), np.zeros(16))
    assert len(data) == 128


def test_binary_in_json_out(server):
    reply = server.infer("add_sub", *binary_add_sub())
    assert reply.headers["content-type"] == "application/json"
    assert reply.outputs()["OUTPUT0"]["data"] == [2.0 * n for n in range(16)]


def test_json_in_binary_out(server):
    body = {**wire.add_sub(), "outputs": [{"name": "OUTPUT1", "parameters": {"binary_data": True}}]}
    header, data = server.infer("add_sub", body).split()
    assert [output["name"] for output in header["outputs"]] == ["OUTPUT1"]
    np.testing.assert_array_equal(np.frombuffer(data, "<f4"), np.arange(16) - 1)


def test_one_output_binary_one_json(server):
    wanted = [{"name": "OUTPUT1", "parameters": {"binary_data": True}}, {"name": "OUTPUT0"}]
    header, data = server.infer("add_sub", *binary_add_sub(outputs=wanted)).split()
    first, second = header["outputs"]
    assert (first["name"], first["parameters"]) == ("OUTPUT1", {"binary_data_size": 64})
    assert (second["name"], second["data"]) == ("OUTPUT0", [2.0 * n for n in range(16)])
    assert data == bytes(64)


def test_one_input_json_one_binary(server):
    header = request(
        tensor("INPUT0", "FP32", [1, 16], list(range(16))),
        tensor("INPUT1", "FP32", [1, 16], binary_data_size=64),
    )
    reply = server.infer("add_sub", *wire.binary(header, SIXTEEN))
    assert reply.outputs()["OUTPUT1"]["data"] == [0] * 16


@pytest.mark.parametrize("listed, binary", [(None, True), (False, False), (True, True)])
def test_listed_outputs_use_their_own_flag_then_the_requests(server, listed, binary):
    wanted = {"name": "OUTPUT0"}
    if listed is not None:
        wanted["parameters"] = {"binary_data": listed}
    body = {**wire.add_sub(), "outputs": [wanted], "parameters": {"binary_data_output": True}}
    reply = server.infer("add_sub", body)
    assert (HEADER_LENGTH.lower() in reply.headers) == binary
    values = np.frombuffer(reply.split()[1], "<f4") if binary else reply.outputs()["OUTPUT0"]["data"]
    assert list(values) == list(range(1, 17))


@pytest.mark.parametrize("datatype", wire.NUMPY)
def test_every_datatype(server, datatype):
    sent = samples.of(datatype)
    blob = sent.tobytes()
    header = request(
        tensor("INPUT0", datatype, sent.shape, binary_data_size=len(blob)),
        parameters={"binary_data_output": True},
    )
    head, data = server.infer(f"identity_{datatype.lower()}", *wire.binary(header, blob)).split()
    assert head["outputs"][0]["datatype"] == datatype
    assert data == blob


def test_strings_with_nul_and_any_bytes(server):
    blob = wire.strings(b"a\0b", b"", b"\xff" * 300)
    header = request(
        tensor("INPUT0", "BYTES", [3], binary_data_size=len(blob)),
        parameters={"binary_data_output": True},
    )
    assert server.infer("identity_str", *wire.binary(header, blob)).split()[1] == blob


def test_empty_binary_output_has_no_header_length(server):
    header = request(
        tensor("INPUT0", "FP32", [1, 0], binary_data_size=0), parameters={"binary_data_output": True}
    )
    reply = server.infer("identity_fp32", *wire.binary(header))
    assert reply.status == 200
    assert HEADER_LENGTH.lower() not in reply.headers
    assert reply.headers["content-type"] == "application/json"
    assert reply.json()["outputs"][0]["parameters"]["binary_data_size"] == 0


@pytest.mark.parametrize("spelling", ["inference-header-content-length", HEADER_LENGTH.upper()])
def test_header_name_in_any_case(server, spelling):
    body, headers = binary_add_sub()
    reply = server.infer("add_sub", body, {spelling: headers[HEADER_LENGTH]})
    assert reply.outputs()["OUTPUT0"]["data"] == [2.0 * n for n in range(16)]


@pytest.mark.parametrize("count", [1, 4, 100_000])
def test_raw_request(server, count):
    sent = np.arange(count, dtype="<f4").tobytes()
    header, data = server.infer("identity_fp32", sent, {HEADER_LENGTH: "0"}).split()
    assert header["outputs"][0]["shape"] == [1, count]
    assert data == sent


def test_raw_request_of_a_string_has_no_length_prefix(server):
    reply = server.infer("identity_str_one", b"just \0 bytes", {HEADER_LENGTH: "0"})
    assert reply.split()[1] == wire.strings(b"just \0 bytes")


@pytest.mark.parametrize(
    "model, text",
    [
        ("identity_str", "For BYTE datatype raw input 'INPUT0', the model must have input shape [1]"),
        (
            "var2",
            "The shape of the raw input 'INPUT0' can not be deduced because there are more than one "
            "variable-sized dimension",
        ),
        ("three_inputs", "Raw request must only have 1 input (found 1) to be deduced but got 3 inputs"),
    ],
)
def test_raw_request_that_cannot_be_deduced(server, model, text):
    reply = server.infer(model, bytes(8), {HEADER_LENGTH: "0"})
    assert reply.status == 400
    assert text in reply.error()


def test_raw_request_of_part_of_an_element(server):
    reply = server.infer("identity_fp32", bytes(7), {HEADER_LENGTH: "0"})
    assert reply.status == 400 and "INPUT0" in reply.error()


def test_two_tensors_fewer_bytes(server):
    body, headers = binary_add_sub()
    reply = server.infer("add_sub", body[:-10], headers)
    assert reply.status == 400
    assert "unexpected size for input 'INPUT1', expecting" in reply.error()
    assert "additional bytes for model 'add_sub'" in reply.error()


def test_surplus_bytes(server):
    body, headers = binary_add_sub()
    reply = server.infer("add_sub", body + b"xx", headers)
    assert reply.status == 400
    assert "unexpected additional input data for model 'add_sub'" in reply.error()


@pytest.mark.parametrize(
    "length, text",
    [
        ("99999999999", "Unable to parse Inference-Header-Content-Length, value is out of range"),
        ("100000", "inference header size should be in range (0, "),
        ("-1", "inference header size should be in range (0, "),
        ("many", "Inference-Header-Content-Length"),
        ("", "Inference-Header-Content-Length"),
        ("1e3", "Inference-Header-Content-Length"),
        ("18446744073709551616", "Inference-Header-Content-Length"),
    ],
)
def test_wrong_header_lengths(server, length, text):
    body, _ = binary_add_sub()
    reply = server.infer("add_sub", body, {HEADER_LENGTH: length})
    assert reply.status == 400
    assert text in reply.error()


@pytest.mark.parametrize("off_by", [-1, 1])
def test_header_length_off_by_one(server, off_by):
    body, headers = binary_add_sub()
    reply = server.infer("add_sub", body, {HEADER_LENGTH: str(int(headers[HEADER_LENGTH]) + off_by)})
    assert reply.status == 400
    assert reply.error()


@pytest.mark.parametrize("size", [63, 65, 0, 2**31, 2**63 - 1])
def test_binary_size_unlike_the_shape(server, size):
    header = request(
        tensor("INPUT0", "FP32", [1, 16], binary_data_size=size),
        tensor("INPUT1", "FP32", [1, 16], [0] * 16),
    )
    reply = server.infer("add_sub", *wire.binary(header, bytes(min(size, 65))))
    assert reply.status == 400
    assert "INPUT0" in reply.error()


@pytest.mark.parametrize("size", [-1, "64", 1.5, True, None, 2**64])
def test_invalid_binary_size(server, size):
    header = request(tensor("INPUT0", "FP32", [1, 16], binary_data_size=0))
    header["inputs"][0]["parameters"]["binary_data_size"] = size
    reply = server.infer("identity_fp32", *wire.binary(header, bytes(64)))
    assert reply.status == 400
    assert reply.error()


@pytest.mark.parametrize(
    "blob, text",
    [
        (
            struct.pack("<I", 100) + b"short",
            "incomplete string data for inference input 'INPUT0' for model 'identity_str', expecting string of "
            "length 100 but only 5 bytes available",
        ),
        (
            b"\x01\x00",
            "incomplete string length indicator for inference input 'INPUT0' for model 'identity_str', "
            "expecting 4 bytes but only 2 bytes available",
        ),
        (wire.strings(b"a"), "unexpected number of string elements 1 for inference input 'INPUT0'"),
        (wire.strings(b"a", b"b", b"c"), "unexpected number of string elements 3 for inference input 'INPUT0'"),
        (struct.pack("<I", 0xFFFFFFFF) + b"a", "expecting string of length 4294967295 but only 1 bytes available"),
    ],
)
def test_strings_that_do_not_fit(server, blob, text):
    header = request(tensor("INPUT0", "BYTES", [2], binary_data_size=len(blob)))
    reply = server.infer("identity_str", *wire.binary(header, blob))
    assert reply.status == 400
    assert text in reply.error()


COMPRESS = {"gzip": gzip.compress, "deflate": zlib.compress}
DECOMPRESS = {"gzip": gzip.decompress, "deflate": zlib.decompress}


@pytest.mark.parametrize("coding", COMPRESS)
def test_header_length_counts_uncompressed_bytes(server, coding):
    body, headers = binary_add_sub()
    reply = server.infer("add_sub", COMPRESS[coding](body), {**headers, "Content-Encoding": coding})
    assert reply.outputs()["OUTPUT0"]["data"] == [2.0 * n for n in range(16)]


@pytest.mark.parametrize("coding", COMPRESS)
def test_binary_response_is_compressed_as_a_whole(server, coding):
    body, headers = binary_add_sub(parameters={"binary_data_output": True})
    reply = server.infer("add_sub", body, {**headers, "Accept-Encoding": coding})
    assert reply.headers["content-encoding"] == coding
    plain = reply._replace(body=DECOMPRESS[coding](reply.body))
    assert np.frombuffer(plain.split()[1][:64], "<f4").tolist() == [2.0 * n for n in range(16)]


@pytest.mark.parametrize(
    "accept, chosen",
    [
        ("gzip;q=0, deflate", ("deflate", None)),
        ("gzip;q=0.2, deflate;q=0.9", ("deflate",)),
        ("deflate;q=0.2, gzip;q=0.9", ("gzip",)),
        ("br", (None,)),
        ("identity", (None,)),
        ("gzip;q=0", (None,)),
        ("", (None,)),
        ("nonsense;;q=x,,", (None,)),
    ],
)
def test_response_follows_accept_encoding(server, accept, chosen):
    reply = server.infer("add_sub", wire.add_sub(), {"Accept-Encoding": accept})
    assert reply.status == 200
    coding = reply.headers.get("content-encoding")
    assert coding in chosen or (coding == "identity" and None in chosen)
    plain = DECOMPRESS[coding](reply.body) if coding in DECOMPRESS else reply.body
    assert reply._replace(body=plain).outputs()["OUTPUT0"]["data"] == list(range(1, 17))


def test_unknown_content_encoding(server):
    reply = server.infer("add_sub", b"x", {"Content-Encoding": "br"})
    assert reply.status == 415
    assert "Unsupported compression type" in reply.error()
    assert reply.headers["accept-encoding"].replace(" ", "") == "gzip,deflate"


@pytest.mark.parametrize("coding", COMPRESS)
@pytest.mark.parametrize("damage", ["truncated", "garbage", "plain"])
def test_damaged_compression(server, coding, damage):
    whole = COMPRESS[coding](binary_add_sub()[0])
    body = {"truncated": whole[:-20], "garbage": b"\x1f\x8b" + bytes(50), "plain": b'{"inputs":[]}'}
    reply = server.infer("add_sub", body[damage], {"Content-Encoding": coding})
    assert reply.status == 400
    assert "cannot decompress the request body" in reply.error()


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "Deflate"])
def test_codings_are_named_in_any_case(server, coding):
    body = COMPRESS[coding.lower()](json.dumps(wire.add_sub()).encode())
    reply = server.infer("add_sub", body, {"Content-Encoding": coding, "Accept-Encoding": coding})
    assert reply.headers["content-encoding"] == coding.lower()
    plain = DECOMPRESS[coding.lower()](reply.body)
    assert reply._replace(body=plain).outputs()["OUTPUT0"]["data"] == list(range(1, 17))


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": "gzip\xff"},
        {"Content-Encoding": "gzip, gzip"},
        [("Content-Encoding", "identity"), ("Content-Encoding", "br")],
        [("Content-Encoding", "gzip"), ("Content-Encoding", "gzip")],
    ],
)
def test_encoded_bytes_are_never_a_tensor(server, headers):
    lines = [(HEADER_LENGTH, "0"), ("Content-Length", "8"), *(headers.items() if isinstance(headers, dict) else headers)]
    answer = raw_request(server, lines, bytes(8))
    assert wire.status_of(answer) == 415 and b"Unsupported compression type" in answer


def test_a_transfer_coding_is_never_a_tensor(server):
    lines = [(HEADER_LENGTH, "0"), ("Transfer-Encoding", "gzip, chunked")]
    answer = raw_request(server, lines, b"8\r\n12345678\r\n0\r\n\r\n")
    assert wire.status_of(answer) == 400 and b"chunked alone" in answer


def test_two_lengths_of_json(server):
    lines = [(HEADER_LENGTH, "2"), (HEADER_LENGTH, "0"), ("Content-Length", "8")]
    answer = raw_request(server, lines, bytes(8))
    assert wire.status_of(answer) == 400 and b"is not one length" in answer


def raw_request(server, lines: list, body: bytes) -> bytes:
    host, _, prefix = server.http.partition("/")
    path = (prefix and "/" + prefix) + "/v2/models/identity_fp32/infer"
    head = "".join(f"{name}: {value}\r\n" for name, value in [("Host", host), *lines])
    return wire.raw(server.http_port, f"POST {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body)


def test_identity_with_another_coding_has_no_effect(server):
    body = gzip.compress(json.dumps(wire.add_sub()).encode())
    for coding in ["x-gzip", "gzip, identity", "identity,gzip"]:
        reply = server.infer("add_sub", body, {"Content-Encoding": coding})
        assert reply.outputs()["OUTPUT0"]["data"] == list(range(1, 17))


def test_bytes_behind_compressed_ones(server):
    body = json.dumps(wire.add_sub()).encode()
    for coding, compress in COMPRESS.items():
        reply = server.infer("add_sub", compress(body) + b"junk", {"Content-Encoding": coding})
        assert reply.status == 400 and "cannot decompress the request body" in reply.error()


def test_gzip_of_several_members(server):
    body = json.dumps(wire.add_sub()).encode()
    packed = gzip.compress(body[:40]) + gzip.compress(body[40:])
    reply = server.infer("add_sub", packed, {"Content-Encoding": "gzip"})
    assert reply.outputs()["OUTPUT0"]["data"] == list(range(1, 17))
