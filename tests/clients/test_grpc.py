"""gRPC inference message by message: raw and typed contents, limits, compression, deadlines."""

import threading

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

import samples
import wire
from stopwatch import Stopwatch

UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]

TYPED = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}


@pytest.fixture(scope="module")
def stub(server):
    with grpc.insecure_channel(server.grpc, options=UNLIMITED) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def message(model: str, *inputs, raw=(), **more) -> pb.ModelInferRequest:
    """Returns a request. Each input is a tuple (name, datatype, shape[, contents])."""
    request = pb.ModelInferRequest(model_name=model, raw_input_contents=list(raw), **more)
    for name, datatype, shape, *contents in inputs:
        row = request.inputs.add(name=name, datatype=datatype, shape=shape)
        for field, values in contents[0].items() if contents else ():
            getattr(row.contents, field).extend(values)
    return request


def code_of(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value.code(), raised.value.details()


@pytest.mark.parametrize("datatype", wire.NUMPY)
def test_raw_in_is_raw_out(stub, datatype):
    sent = samples.of(datatype)
    request = message(
        f"identity_{datatype.lower()}", ("INPUT0", datatype, sent.shape), raw=[sent.tobytes()]
    )
    answer = stub.ModelInfer(request)
    assert list(answer.raw_output_contents) == [sent.tobytes()]
    output = answer.outputs[0]
    assert (output.name, output.datatype, tuple(output.shape)) == ("OUTPUT0", datatype, sent.shape)
    assert not output.HasField("contents")


@pytest.mark.parametrize("datatype", TYPED)
def test_typed_in_is_raw_out(stub, datatype):
    sent = samples.of(datatype)
    contents = {TYPED[datatype]: sent.flatten().tolist()}
    answer = stub.ModelInfer(
        message(f"identity_{datatype.lower()}", ("INPUT0", datatype, sent.shape, contents))
    )
    assert list(answer.raw_output_contents) == [sent.tobytes()]


def test_typed_bytes(stub):
    elements = [b"a", b"", b"\x00\xff" * 10]
    answer = stub.ModelInfer(
        message("identity_str", ("INPUT0", "BYTES", [3], {"bytes_contents": elements}))
    )
    assert list(answer.raw_output_contents) == [wire.strings(*elements)]


def test_hundred_thousand_byte_strings_are_fast(stub):
    elements = [b"element %d" % n for n in range(100_000)]
    stopwatch = Stopwatch()
    answer = stub.ModelInfer(
        message("identity_str", ("INPUT0", "BYTES", [len(elements)], {"bytes_contents": elements}))
    )
    assert answer.raw_output_contents[0] == wire.strings(*elements)
    assert stopwatch.seconds() < 10


@pytest.mark.parametrize(
    "datatype, field, value",
    [
        ("INT8", "int_contents", 300),
        ("INT16", "int_contents", -40000),
        ("UINT8", "uint_contents", 256),
        ("UINT16", "uint_contents", 65536),
    ],
)
def test_typed_values_out_of_range(stub, datatype, field, value):
    request = message(f"identity_{datatype.lower()}", ("INPUT0", datatype, [1, 1], {field: [value]}))
    code, details = code_of(lambda: stub.ModelInfer(request))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "INPUT0" in details


def test_id_version_and_names_come_back(stub):
    request = message("two_versions", ("INPUT0", "INT32", [1, 1], {"int_contents": [1]}), id="x-1")
    answer = stub.ModelInfer(request)
    assert (answer.id, answer.model_name, answer.model_version) == ("x-1", "two_versions", "3")


@pytest.mark.parametrize("coding", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compression_by_the_client(server, coding):
    with grpc.insecure_channel(server.grpc, compression=coding) as channel:
        sent = samples.of("FP32")
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(
            message("identity_fp32", ("INPUT0", "FP32", sent.shape), raw=[sent.tobytes()])
        )
    assert answer.raw_output_contents[0] == sent.tobytes()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compression_by_tritonclient(server, coding):
    sent = samples.of("FP64")
    value = grpc_client.InferInput("INPUT0", sent.shape, "FP64")
    value.set_data_from_numpy(sent)
    with grpc_client.InferenceServerClient(server.grpc) as client:
        result = client.infer("identity_fp64", [value], compression_algorithm=coding)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), sent)


def test_keepalive_pings_are_tolerated(server):
    options = grpc_client.KeepAliveOptions(
        keepalive_time_ms=2000, keepalive_timeout_ms=5000, keepalive_permit_without_calls=True
    )
    with grpc_client.InferenceServerClient(server.grpc, keepalive_options=options) as client:
        sent = np.array([[1]], dtype=np.int32)
        value = grpc_client.InferInput("INPUT0", [1, 1], "INT32")
        value.set_data_from_numpy(sent)
        for _ in range(5):
            assert client.infer("slow", [value]).as_numpy("OUTPUT0").tolist() == [[1]]


def test_256_mebibytes(stub):
    sent = bytes(range(256)) * (1 << 20)
    request = message("identity_uint8", ("INPUT0", "UINT8", [1, len(sent)]), raw=[sent])
    assert stub.ModelInfer(request).raw_output_contents[0] == sent


def test_deadline_of_the_client(stub):
    request = message("slow", ("INPUT0", "INT32", [1, 1], {"int_contents": [1]}))
    stopwatch = Stopwatch()
    code, _ = code_of(lambda: stub.ModelInfer(request, timeout=0.1))
    assert code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert stopwatch.seconds() < 0.45


def test_expired_requests_are_not_run(server, stub):
    """Requests whose deadline passes in the queue are dropped before they run."""
    before = server.statistics("slow")["inference_count"]
    request = message("slow", ("INPUT0", "INT32", [8, 1], {"int_contents": [1] * 8}))
    running = stub.ModelInfer.future(request)
    another = stub.ModelInfer.future(request)
    server.wait_for_pending("slow", 1)
    waiting = [stub.ModelInfer.future(request, timeout=0.1) for _ in range(10)]
    for call in waiting:
        # A request is refused at once if its predicted wait is longer than its deadline.
        assert call.code() in (
            grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED
        )
    running.result()
    another.result()
    stub.ModelInfer(request)
    # Three requests run, and one more may have been prepared ahead; the other nine never ran.
    assert server.statistics("slow")["inference_count"] - before <= 8 * 4


def test_cancelled_request_leaves_the_queue(server, stub):
    request = message("slow", ("INPUT0", "INT32", [8, 1], {"int_contents": [1] * 8}))
    running = stub.ModelInfer.future(request)
    waiting = [stub.ModelInfer.future(request) for _ in range(8)]
    for call in waiting:
        call.cancel()
        assert call.cancelled()
    running.result()
    stopwatch = Stopwatch()
    stub.ModelInfer(request)
    # The limit is the request's own half second, and at most one batch that was already running.
    assert stopwatch.seconds() < 1.8


def test_cancel_by_tritonclient(server):
    done, outcome = threading.Event(), []

    def callback(result, error):
        outcome.append(error)
        done.set()

    value = grpc_client.InferInput("INPUT0", [1, 1], "INT32")
    value.set_data_from_numpy(np.array([[1]], dtype=np.int32))
    with grpc_client.InferenceServerClient(server.grpc) as client:
        client.async_infer("slow", [value], callback).cancel()
        assert done.wait(5)
    assert "CANCELLED" in str(outcome[0])


def test_statistics_of_all_models(stub):
    answer = stub.ModelStatistics(pb.ModelStatisticsRequest())
    names = {(row.name, row.version) for row in answer.model_stats}
    assert {("add_sub", "1"), ("two_versions", "2"), ("two_versions", "3")} <= names


def test_trailers_report_the_batch(stub):
    request = message("slow", ("INPUT0", "INT32", [1, 1], {"int_contents": [1]}))
    _, call = stub.ModelInfer.with_call(request)
    metadata = dict(call.initial_metadata()) | dict(call.trailing_metadata())
    assert metadata["weir-batch"].startswith("size=1;us=")
    assert "compute" in metadata["server-timing"]
