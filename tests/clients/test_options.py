"""Behaviour set by flags: size limits, restricted interfaces, forwarded headers, shared memory, ids."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
import tritonclient.utils.shared_memory as shm
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

import wire
from server import GOOD, Server, wait_until
from test_batching import number
from test_grpc import code_of
from wire import HEADER_LENGTH, request, tensor

KEY = "admin-key"


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """Starts one server with every option of this file, because the options are independent."""
    options = [
        "--id=mine",
        "--http-max-input-size=1048576",
        "--http-header-forward-pattern=my_header.*",
        "--grpc-header-forward-pattern=my_header.*",
        f"--http-restricted-api=model-repository,statistics:{KEY}=secret",
        f"--grpc-restricted-protocol=model-repository,statistics:{KEY}=secret",
        "--allow-client-shm=true",
    ]
    running = Server(tmp_path_factory.mktemp("limited") / "log", [GOOD], options).start()
    yield running
    running.stop()


def test_server_name(limited):
    assert limited.call("GET", "/v2").json()["name"] == "mine"


def test_json_over_the_limit(limited):
    body = json.dumps(request(tensor("INPUT0", "FP32", [1, 1], [1]))).encode() + b" " * (1 << 20)
    reply = limited.infer("identity_fp32", body)
    assert reply.status in (400, 413)
    assert "1048576" in reply.error()
    assert "--http-max-input-size" in reply.error()


def test_json_tensor_that_expands_over_the_limit(limited):
    """Each number takes two characters in JSON and eight bytes as FP64."""
    body = request(tensor("INPUT0", "FP64", [1, 200_000], [1] * 200_000))
    reply = limited.infer("identity_fp64", json.dumps(body, separators=(",", ":")).encode())
    assert reply.status in (400, 413)
    assert "1048576" in reply.error()


def test_raw_request_over_the_limit(limited):
    reply = limited.infer("identity_fp32", bytes(2 << 20), {HEADER_LENGTH: "0"})
    assert reply.status in (400, 413)
    assert "1048576" in reply.error()


def test_binary_tensors_are_not_limited_like_json(limited):
    sent = np.arange(1 << 20, dtype=np.float32)
    header = request(
        tensor("INPUT0", "FP32", [1, sent.size], binary_data_size=sent.nbytes),
        parameters={"binary_data_output": True},
    )
    reply = limited.infer("identity_fp32", *wire.binary(header, sent.tobytes()))
    assert reply.split()[1] == sent.tobytes()


def test_forwarded_headers_become_parameters(limited):
    reply = limited.infer("echo_parameters", number(1), {"my_header_a": "x", "other": "y", "X-MY_HEADER": "ü".encode()})
    parameters = reply.json()["parameters"]
    # As in Triton, the pattern may match any part of a name; names are in lower case.
    assert (parameters.get("my_header_a"), parameters.get("x-my_header")) == ("x", "ü")
    assert "other" not in parameters
    reply = limited.infer("echo_parameters", number(1), {"my_header_a": b"\xfc"})
    assert (reply.status, reply.error()) == (400, "Header 'my_header_a' is not UTF-8 and cannot be forwarded.")


def test_forwarded_metadata_becomes_parameters(limited):
    with grpc.insecure_channel(limited.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        from test_grpc import message

        body = message("echo_parameters", ("INPUT0", "INT32", [1, 1], {"int_contents": [1]}))
        answer = stub.ModelInfer(body, metadata=[("my_header_b", "z")])
    assert answer.parameters["my_header_b"].string_param == "z"


@pytest.mark.parametrize(
    "method, path", [("POST", "/v2/repository/index"), ("GET", "/v2/models/stats")]
)
def test_restricted_over_http(limited, method, path):
    refused = limited.call(method, path, b"" if method == "POST" else None)
    assert refused.status == 403
    assert refused.error() == f"This API is restricted, expecting header '{KEY}'"
    wrong = limited.call(method, path, b"" if method == "POST" else None, {KEY: "wrong"})
    assert wrong.status == 403
    right = limited.call(method, path, b"" if method == "POST" else None, {KEY: "secret"})
    assert right.status == 200


def test_not_restricted_over_http(limited):
    assert limited.call("GET", "/v2/health/ready").status == 200
    assert limited.infer("add_sub", wire.add_sub()).status == 200


def test_restricted_over_grpc(limited):
    with grpc.insecure_channel(limited.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        counted = lambda: limited.metric("weir_runtime_requests_total", protocol="grpc", code="restricted")  # noqa: E731
        before = counted()
        code, details = code_of(lambda: stub.RepositoryIndex(pb.RepositoryIndexRequest()))
        assert code == grpc.StatusCode.UNAVAILABLE
        assert counted() == before + 1
        assert "This protocol is restricted, expecting header 'triton-grpc-protocol-" in details
        metadata = [(f"triton-grpc-protocol-{KEY}", "secret")]
        answer = stub.RepositoryIndex(pb.RepositoryIndexRequest(), metadata=metadata)
        assert len(answer.models) > 10
        assert stub.ServerLive(pb.ServerLiveRequest()).live


def test_metrics_and_reflection_may_need_a_key(start):
    rules = [f"--http-restricted-api=metrics:{KEY}=secret", f"--grpc-restricted-protocol=reflection:{KEY}=secret"]
    server = start([GOOD], *rules)
    scrape = lambda headers: wire.call(server.metrics_port, "GET", "/metrics", headers=headers).status  # noqa: E731
    assert [scrape({}), scrape({KEY: "wrong"}), scrape({KEY: "secret"})] == [403, 403, 200]
    with grpc.insecure_channel(server.grpc) as channel:
        info = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        everything = lambda **more: next(info(iter([b"\x3a\x01*"]), timeout=5, **more))  # noqa: E731
        assert code_of(everything)[0] == grpc.StatusCode.UNAVAILABLE
        assert b"GRPCInferenceService" in everything(metadata=[(f"triton-grpc-protocol-{KEY}", "secret")])


LIBRARIES = {"http": http_client, "grpc": grpc_client}


@pytest.fixture(params=LIBRARIES)
def shared_memory_client(request, limited):
    library = LIBRARIES[request.param]
    with library.InferenceServerClient(getattr(limited, request.param)) as client:
        yield library, client
        client.unregister_system_shared_memory()


@pytest.fixture
def region():
    """Creates 128 bytes of shared memory, and yields it with its key."""
    key = f"/weir-test-{uuid.uuid4().hex}"
    handle = shm.create_shared_memory_region("region", key, 128)
    yield handle, key
    shm.destroy_shared_memory_region(handle)


def test_tensors_in_shared_memory(shared_memory_client, region):
    library, client = shared_memory_client
    handle, key = region
    sent = np.arange(16, dtype=np.float32)[None]
    shm.set_shared_memory_region(handle, [sent])
    client.register_system_shared_memory("region", key, 128)
    rows = [library.InferInput(name, [1, 16], "FP32") for name in ("INPUT0", "INPUT1")]
    for row in rows:
        row.set_shared_memory("region", 64)
    output = library.InferRequestedOutput("OUTPUT0")
    output.set_shared_memory("region", 64, 64)
    client.infer("add_sub", rows, outputs=[output])
    got = shm.get_contents_as_numpy(handle, np.float32, [1, 16], offset=64)
    np.testing.assert_array_equal(got, sent * 2)


def test_outputs_do_not_overwrite_each_other(shared_memory_client, region):
    library, client = shared_memory_client
    handle, key = region
    shm.set_shared_memory_region(handle, [np.ones([1, 16], np.float32)])
    client.register_system_shared_memory("region", key, 128)
    rows = [library.InferInput(name, [1, 16], "FP32") for name in ("INPUT0", "INPUT1")]
    outputs = [library.InferRequestedOutput(name) for name in ("OUTPUT0", "OUTPUT1")]
    for row in rows:
        row.set_shared_memory("region", 64)
    for output, offset in zip(outputs, (64, 60)):
        output.set_shared_memory("region", 64, offset)
    text = refused(client.infer, "add_sub", rows, outputs=outputs)
    assert "outputs 'OUTPUT0' and 'OUTPUT1' overwrite each other in shared memory region 'region'" in text
    np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.float32, [32])[:16], 1)
    # The output is created again, because these libraries do not reset an offset to 0.
    outputs[1] = library.InferRequestedOutput("OUTPUT1")
    outputs[1].set_shared_memory("region", 64)
    client.infer("add_sub", rows, outputs=outputs)
    np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.float32, [32]), [0] * 16 + [2] * 16)


@pytest.mark.parametrize("parameters", [{}, {"shared_memory_byte_size": 64}])
def test_an_output_in_an_unknown_region(limited, parameters):
    outputs = [{"name": "OUTPUT0", "parameters": {"shared_memory_region": "nowhere", **parameters}}]
    reply = limited.infer("add_sub", {**wire.add_sub(), "outputs": outputs})
    assert reply.status == 404
    assert reply.error() == "Unable to find shared memory region: 'nowhere'"


@pytest.mark.parametrize("next_key", [None, "other"], ids=["unregistered", "registered-anew"])
def test_an_output_is_written_to_the_region_registered_at_arrival(limited, region, next_key):
    """While the model runs, another client unregisters the region, or registers other memory under its name."""
    handle, key = region
    other = shm.create_shared_memory_region("other", f"{key}-other", 128)
    place = {"shared_memory_region": "region", "shared_memory_byte_size": 4}
    body = request(tensor("INPUT0", "INT32", [1, 1], [7]), outputs=[{"name": "OUTPUT0", "parameters": place}])
    shm.set_shared_memory_region(handle, [np.zeros(1, np.int32)])
    with http_client.InferenceServerClient(limited.http) as client, ThreadPoolExecutor() as pool:
        client.register_system_shared_memory("region", key, 128)
        running = pool.submit(limited.infer, "slow", body)
        seconds = "weir_runtime_running_batch_seconds"
        wait_until(lambda: limited.metric(seconds, model="slow") > 0, 10, "the model runs")
        client.unregister_system_shared_memory("region")
        if next_key:
            client.register_system_shared_memory("region", f"{key}-{next_key}", 128)
        assert running.result().outputs()["OUTPUT0"] == {"name": "OUTPUT0", "datatype": "INT32", "shape": [1, 1]}
        client.unregister_system_shared_memory()
    assert shm.get_contents_as_numpy(handle, np.int32, [1]) == [7]
    assert shm.get_contents_as_numpy(other, np.int32, [1]) == [0]
    shm.destroy_shared_memory_region(other)


def test_status_and_unregister(shared_memory_client, region):
    _, client = shared_memory_client
    client.register_system_shared_memory("region", region[1], 64, offset=32)
    status = client.get_system_shared_memory_status()
    if isinstance(status, list):
        (row,) = status
        found = (row["name"], row["key"], row["offset"], row["byte_size"])
    else:
        row = status.regions["region"]
        found = (row.name, row.key, row.offset, row.byte_size)
    assert found == ("region", region[1], 32, 64)
    client.unregister_system_shared_memory("region")
    status = client.get_system_shared_memory_status()
    assert (status if isinstance(status, list) else list(status.regions)) == []


def refused(call, *args, **kwargs) -> str:
    from tritonclient.utils import InferenceServerException

    with pytest.raises(InferenceServerException) as raised:
        call(*args, **kwargs)
    return raised.value.message()


def test_registering_twice(shared_memory_client, region):
    _, client = shared_memory_client
    client.register_system_shared_memory("region", region[1], 128)
    text = refused(client.register_system_shared_memory, "region", region[1], 128)
    assert "shared memory region 'region' already in manager" in text


def test_registering_unknown_shared_memory(shared_memory_client):
    _, client = shared_memory_client
    text = refused(client.register_system_shared_memory, "region", "/weir-no-such-key", 128)
    assert text.endswith("Unable to open shared memory region: '/weir-no-such-key'")
    assert refused(client.register_system_shared_memory, "region", "/../../etc/passwd", 128)
    reserved = "/triton_python_backend_shm_region_1"
    text = refused(client.register_system_shared_memory, "region", reserved, 128)
    assert text.endswith(
        f"cannot register shared memory region 'region' with key '{reserved}' as the key contains the "
        "reserved prefix 'triton_python_backend_shm_region_'"
    )


@pytest.mark.parametrize(
    "body, text",
    [
        (b"", "Unable to parse 'key'"),
        (b'{"key":"/k"}', "Unable to parse 'byte_size'"),
        (b'{"key":7,"byte_size":1}', "Unable to parse 'key': attempt to access JSON non-string as string"),
        (b'{"key":"/k","byte_size":-1}', "Unable to parse 'byte_size'"),
        (b'["/k",0,64]', "attempt to access JSON non-object as object"),
        (b"{", "failed to parse the request JSON buffer"),
    ],
)
def test_invalid_registrations(limited, body, text):
    reply = limited.call("POST", "/v2/systemsharedmemory/region/r/register", body)
    assert reply.status == 400
    assert text in reply.error()


def test_registering_more_than_the_object_has(shared_memory_client, region):
    _, client = shared_memory_client
    assert refused(client.register_system_shared_memory, "region", region[1], 1 << 40)
    assert refused(client.register_system_shared_memory, "region", region[1], 128, offset=1)


def test_region_that_is_unknown_too_small_or_out_of_bounds(shared_memory_client, region):
    library, client = shared_memory_client
    row = library.InferInput("INPUT0", [1, 16], "FP32")
    row.set_shared_memory("region", 64)
    text = refused(client.infer, "identity_fp32", [row])
    assert "Unable to find shared memory region: 'region'" in text
    client.register_system_shared_memory("region", region[1], 128)
    row.set_shared_memory("region", 64, offset=100)
    assert "Invalid offset + byte size for shared memory region: 'region'" in refused(
        client.infer, "identity_fp32", [row]
    )
    row = library.InferInput("INPUT0", [1, 16], "FP32")
    row.set_shared_memory("region", 64)
    output = library.InferRequestedOutput("OUTPUT0")
    output.set_shared_memory("region", 32, 64)
    text = refused(client.infer, "identity_fp32", [row], outputs=[output])
    assert "(32 bytes) should be at least 64 bytes to hold the results" in text


def test_cuda_shared_memory_is_refused(shared_memory_client):
    _, client = shared_memory_client
    assert refused(client.register_cuda_shared_memory, "region", b"x" * 64, 0, 64)
    # Clients unregister all regions before they register their own.
    client.unregister_cuda_shared_memory()
    client.unregister_cuda_shared_memory("region")
