"""Requests to models whose signature is a guess: input that cannot become a tensor is refused, and the server keeps
running.

The models have no configuration, and no trial run succeeded, so each request tries its own datatypes and shapes.
"""

import shutil
import uuid

import grpc
import numpy as np
import pytest
import tritonclient.utils.shared_memory as shm
from tritonclient.grpc import service_pb2_grpc

import wire
from server import Server
from test_grpc import code_of, message
from test_zoo import ZOO
from wire import binary, request, tensor

MODEL = "unservable"
SHAPE = [2, 17, 5]
ELEMENTS = 2 * 17 * 5
REFUSAL = (
    "inference input 'x' data-type is 'BYTES', but model 'unservable' expects a tensor of any other datatype (guessed"
)


@pytest.fixture(scope="module")
def guessing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guessing")
    shutil.copytree(ZOO / MODEL, folder / MODEL)
    log = folder.with_name(folder.name + "-log")
    running = Server(log, [folder], ["--allow-client-shm=true"]).start()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def keeps_serving(guessing):
    """Checks after every test that the same process still runs and answers valid input."""
    process = guessing.process.pid
    yield
    assert guessing.process.poll() is None and guessing.process.pid == process
    reply = guessing.infer(MODEL, request(tensor("x", "FP32", SHAPE, [1.0] * ELEMENTS)))
    assert reply.outputs()["OUTPUT__0"]["data"] == [85, 85]


def assert_refused(reply: wire.Reply) -> None:
    assert reply.status == 400, reply
    assert REFUSAL in reply.error()


@pytest.mark.parametrize("shape, data", [(SHAPE, ["text"] * ELEMENTS), ([1], ["text"]), ([0], []), ([2, 0, 5], [])])
def test_strings_as_json(guessing, shape, data):
    assert_refused(guessing.infer(MODEL, request(tensor("x", "BYTES", shape, data))))


@pytest.mark.parametrize("count, shape", [(ELEMENTS, SHAPE), (1, [1]), (0, [0, 17, 5])])
def test_strings_as_bytes(guessing, count, shape):
    blob = wire.strings(*[b"text"] * count)
    body, headers = binary(request(tensor("x", "BYTES", shape, binary_data_size=len(blob))), blob)
    assert_refused(guessing.infer(MODEL, body, headers))


def test_strings_over_grpc(guessing):
    with grpc.insecure_channel(guessing.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        blob = wire.strings(*[b"text"] * ELEMENTS)
        code, details = code_of(lambda: stub.ModelInfer(message(MODEL, ("x", "BYTES", SHAPE), raw=[blob])))
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert REFUSAL in details


def test_strings_in_shared_memory(guessing):
    key, blob = f"/weir-test-{uuid.uuid4().hex}", wire.strings(*[b"text"] * ELEMENTS)
    handle = shm.create_shared_memory_region("texts", key, len(blob))
    try:
        shm.set_shared_memory_region(handle, [np.frombuffer(blob, np.uint8)])
        row = {"key": key, "offset": 0, "byte_size": len(blob)}
        reply = guessing.call("POST", "/v2/systemsharedmemory/region/texts/register", row)
        assert reply.status == 200, reply
        place = {"shared_memory_region": "texts", "shared_memory_byte_size": len(blob)}
        assert_refused(guessing.infer(MODEL, request(tensor("x", "BYTES", SHAPE, **place))))
    finally:
        shm.destroy_shared_memory_region(handle)


@pytest.mark.parametrize("datatype", wire.NUMPY)
def test_every_other_datatype_reaches_the_model(guessing, datatype):
    """libtorch cannot sum all of the datatypes. If it cannot, the request is refused with libtorch's message."""
    blob = np.ones(SHAPE, wire.NUMPY[datatype]).tobytes()
    # Sums of some datatypes have no JSON form.
    asked = request(tensor("x", datatype, SHAPE, binary_data_size=len(blob)), parameters={"binary_data_output": True})
    body, headers = binary(asked, blob)
    reply = guessing.infer(MODEL, body, headers)
    assert reply.status == 200 or "rejects these inputs" in reply.error(), reply


def test_a_refused_request_does_not_run_the_model(guessing):
    before = guessing.statistics(MODEL)["execution_count"]
    assert_refused(guessing.infer(MODEL, request(tensor("x", "BYTES", [1], ["text"]))))
    assert guessing.statistics(MODEL)["execution_count"] == before
