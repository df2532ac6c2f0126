"""Invalid gRPC requests: the status code and the message."""

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

import wire
from test_grpc import code_of, message, stub  # noqa: F401

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED

ROW = ("INPUT0", "FP32", [1, 16])
OTHER = ("INPUT1", "FP32", [1, 16])
FULL = bytes(64)
FLOATS = {"fp32_contents": [0.0] * 16}


@pytest.mark.parametrize(
    "request_, code, text",
    [
        (
            message("add_sub", (*ROW, FLOATS), OTHER, raw=[FULL]),
            INVALID,
            "contents field must not be specified when using raw_input_contents for 'INPUT0' for model 'add_sub'",
        ),
        (
            message("add_sub", ROW, OTHER, raw=[FULL]),
            INVALID,
            "unable to find data for input tensor 'INPUT1' for model 'add_sub' in request.",
        ),
        (
            message("add_sub", ROW, OTHER),
            INVALID,
            "unable to find data for input tensor 'INPUT0' for model 'add_sub' in request.",
        ),
        (
            message("add_sub", (*ROW, {"int_contents": [0] * 16}), (*OTHER, FLOATS)),
            INVALID,
            "unexpected explicit tensor data for input tensor 'INPUT0' for model 'add_sub' of type",
        ),
        (
            message("add_sub", (*ROW, {"fp32_contents": [0.0] * 15}), (*OTHER, FLOATS)),
            INVALID,
            "INPUT0",
        ),
        (
            message("add_sub", ROW, OTHER, raw=[bytes(60), FULL]),
            INVALID,
            "input byte size mismatch for input 'INPUT0' for model 'add_sub'. Expected 64, got 60",
        ),
        (
            message("add_sub", ("INPUT0", "FP32", [1] * 65 + [16], FLOATS), (*OTHER, FLOATS)),
            INVALID,
            "input 'INPUT0' for model 'add_sub': shape has 66 dimensions, more than 64",
        ),
        (
            message("identity_fp16", ("INPUT0", "FP16", [1, 1], {"fp32_contents": [1.0]})),
            INVALID,
            "INPUT0",
        ),
        (
            message("add_sub", ROW, raw=[FULL]),
            INVALID,
            "expected 2 inputs but got 1 inputs for model 'add_sub'",
        ),
        (
            message("add_sub", ROW, ROW, raw=[FULL, FULL]),
            INVALID,
            "input 'INPUT0' already exists in request",
        ),
        (
            message("add_sub", ROW, ("X", "FP32", [1, 16]), raw=[FULL, FULL]),
            INVALID,
            "unexpected inference input 'X' for model 'add_sub'",
        ),
        (
            message("add_sub", ("INPUT0", "INT32", [1, 16]), OTHER, raw=[FULL, FULL]),
            INVALID,
            "inference input 'INPUT0' data-type is 'INT32', but model 'add_sub' expects 'FP32'",
        ),
        (
            message("add_sub", ("INPUT0", "FP99", [1, 16]), OTHER, raw=[FULL, FULL]),
            INVALID,
            "FP99",
        ),
        (
            message("add_sub", ("INPUT0", "FP32", [1, 17]), OTHER, raw=[bytes(68), FULL]),
            INVALID,
            "unexpected shape for input 'INPUT0' for model 'add_sub'. Expected [-1,16], got [1,17]",
        ),
        (
            message("add_sub", ("INPUT0", "FP32", [1, -16]), OTHER, raw=[FULL, FULL]),
            INVALID,
            "-16",
        ),
        (
            message("var2", ("INPUT0", "FP32", [1, 2**32, 2**32]), raw=[b""]),
            INVALID,
            "causes total element count to exceed maximum size of",
        ),
        (
            message("var2", ("INPUT0", "FP32", [2**62, 0, 2**62]), raw=[b""]),
            INVALID,
            "causes total element count to exceed maximum size of",
        ),
        (
            message("add_sub", ("INPUT0", "FP32", [9, 16]), ("INPUT1", "FP32", [9, 16]), raw=[bytes(576)] * 2),
            INVALID,
            "inference request batch-size must be <= 8 for 'add_sub'",
        ),
        (
            message("add_sub", ("INPUT0", "FP32", [2, 16]), OTHER, raw=[bytes(128), FULL]),
            INVALID,
            "input 'INPUT1' batch size does not match other inputs for 'add_sub'",
        ),
        (
            message("identity_str", ("INPUT0", "BYTES", [2]), raw=[wire.strings(b"a")]),
            INVALID,
            "unexpected number of string elements",
        ),
        (
            message("identity_str", ("INPUT0", "BYTES", [1]), raw=[b"\x63\0\0\0a"]),
            INVALID,
            "incomplete string data for inference input 'INPUT0' for model 'identity_str', expecting string of "
            "length 99 but only 1 bytes available",
        ),
        (
            message("add_sub", ROW, OTHER, raw=[FULL, FULL], model_version="abc"),
            INVALID,
            "failed to get model version from specified version string 'abc' (details: stol), version should be an integral value > 0",
        ),
        (
            message("add_sub", ROW, OTHER, raw=[FULL, FULL], model_version="9"),
            NOT_FOUND,
            "version 9 is not found",
        ),
        # Clients accept 8 KiB of metadata; a longer message would reach them as RESOURCE_EXHAUSTED.
        pytest.param(
            message("add_sub", ("x" * 20_000, "FP32", [1, 16]), raw=[FULL]),
            INVALID,
            "' for model 'add_sub'",
            id="long name",
        ),
        (
            message("nope", ROW, raw=[FULL]),
            NOT_FOUND,
            "Request for unknown model: 'nope' is not found",
        ),
        (
            message("", ROW, raw=[FULL]),
            NOT_FOUND,
            "Request for unknown model: '' is not found",
        ),
        (
            message("../../etc", ROW, raw=[FULL]),
            NOT_FOUND,
            "Request for unknown model: '../../etc' is not found",
        ),
        (
            message(
                "add_sub", ROW, OTHER, raw=[FULL, FULL],
                outputs=[pb.ModelInferRequest.InferRequestedOutputTensor(name="X")],
            ),
            INVALID,
            "unexpected inference output 'X' for model 'add_sub'",
        ),
        (
            message(
                "add_sub", ROW, OTHER, raw=[FULL, FULL],
                outputs=[pb.ModelInferRequest.InferRequestedOutputTensor(name="OUTPUT0")] * 2,
            ),
            INVALID,
            "output 'OUTPUT0' already exists in request",
        ),
        (
            message(
                "add_sub", ROW, OTHER, raw=[FULL, FULL],
                parameters={"triton_x": pb.InferParameter(bool_param=True)},
            ),
            INVALID,
            "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys "
            "starting with 'triton_' are allowed: triton_enable_empty_final_response",
        ),
        (
            message(
                "add_sub", ROW, OTHER, raw=[FULL, FULL],
                parameters={"priority": pb.InferParameter(string_param="high")},
            ),
            INVALID,
            "invalid value type for 'priority' parameter, expected int64_param or uint64_param.",
        ),
        (
            message(
                "add_sub", ROW, OTHER, raw=[FULL, FULL],
                parameters={"priority": pb.InferParameter(int64_param=-1)},
            ),
            INVALID,
            "invalid value for 'priority', expected value >= 0.",
        ),
        (
            message(
                "add_sub", ROW, OTHER, raw=[FULL, FULL],
                parameters={"timeout": pb.InferParameter(int64_param=-1)},
            ),
            INVALID,
            "invalid value for 'timeout', expected value >= 0.",
        ),
        (
            message(
                "fail", ("INPUT0", "FP32", [1, 4], {"fp32_contents": [-1.0] * 4}),
            ),
            grpc.StatusCode.INTERNAL,
            "PyTorch execute failure",
        ),
    ],
)
def test_refused_with_its_reason(stub, request_, code, text):  # noqa: F811
    got, details = code_of(lambda: stub.ModelInfer(request_))
    assert got == code, details
    assert text in details
    good = stub.ModelInfer(message("add_sub", ROW, OTHER, raw=[FULL, FULL]))
    assert good.raw_output_contents[0] == FULL


def test_surplus_raw_contents_are_ignored(stub):  # noqa: F811
    answer = stub.ModelInfer(message("add_sub", ROW, OTHER, raw=[FULL, FULL, b"surplus"]))
    assert answer.raw_output_contents[1] == FULL


@pytest.mark.parametrize(
    "call, request_",
    [
        ("ModelMetadata", pb.ModelMetadataRequest(name="nope")),
        ("ModelConfig", pb.ModelConfigRequest(name="nope")),
    ],
)
def test_unknown_models_elsewhere(stub, call, request_):  # noqa: F811
    code, details = code_of(lambda: getattr(stub, call)(request_))
    assert code == NOT_FOUND
    assert "Request for unknown model: 'nope' is not found" in details


VERSIONED = {
    "ModelMetadata": pb.ModelMetadataRequest,
    "ModelConfig": pb.ModelConfigRequest,
    "ModelStatistics": pb.ModelStatisticsRequest,
}


@pytest.mark.parametrize("call", VERSIONED)
def test_versions_are_numbers(stub, call):  # noqa: F811
    metadata = lambda version: getattr(stub, call)(VERSIONED[call](name="add_sub", version=version))  # noqa: E731
    assert metadata("-1") == metadata("1") == metadata("01")
    for version in ("abc", "-2", "1.0"):
        code, details = code_of(lambda: metadata(version))
        assert code == INVALID
        assert f"failed to get model version from specified version string '{version}'" in details


@pytest.mark.parametrize("version, ready", [("-1", True), ("01", True), ("abc", False), ("-2", False)])
def test_readiness_of_odd_versions_is_no_error(stub, version, ready):  # noqa: F811
    answer = stub.ModelReady(pb.ModelReadyRequest(name="add_sub", version=version))
    assert answer.ready is ready


def test_statistics_of_an_unknown_model(stub):  # noqa: F811
    code, details = code_of(lambda: stub.ModelStatistics(pb.ModelStatisticsRequest(name="nope")))
    assert code == NOT_FOUND
    assert "requested model 'nope' is not available" in details


@pytest.mark.parametrize("payload", [b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x7f", b"\x2a\x05abc"])
def test_messages_that_are_no_protobuf(server, payload):
    with grpc.insecure_channel(server.grpc) as channel:
        for name in ("ModelInfer", "ModelMetadata", "ModelStatistics"):
            call = channel.unary_unary(f"/inference.GRPCInferenceService/{name}")
            code, details = code_of(lambda: call(payload, timeout=5))
            assert (code, "Protobuf" in details) == (INVALID, True), details
        stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        code, details = code_of(lambda: list(stream(iter([payload]), timeout=5)))
        assert (code, "Protobuf" in details) == (INVALID, True), details


def test_a_grpc_call_at_the_http_port_names_the_grpc_port(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.http_port}") as channel:
        for path in ("/inference.GRPCInferenceService/ServerLive", "/grpc.health.v1.Health/Check"):
            code, details = code_of(lambda: channel.unary_unary(path)(b"", timeout=5))
            assert (code, "send gRPC calls to the gRPC port" in details) == (UNIMPLEMENTED, True), details


def test_an_http1_request_at_the_grpc_port_names_the_http_port(server):
    for method, body in (("GET", None), ("POST", bytes(1_000_000))):
        reply = wire.call(server.grpc_port, method, "/v2/health/ready", body)
        assert (reply.status, "to the HTTP port" in reply.error()) == (415, True)


@pytest.mark.parametrize("path", ["/inference.GRPCInferenceService/Nothing", "/no.Service/Call"])
def test_unknown_calls(server, path):
    with grpc.insecure_channel(server.grpc) as channel:
        code, details = code_of(lambda: channel.unary_unary(path)(b"", timeout=5))
    assert (code, path in details) == (UNIMPLEMENTED, True), details
