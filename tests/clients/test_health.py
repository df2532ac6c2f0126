"""Liveness, readiness, metadata and configuration; paths and methods."""

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpc_client

import wire
from adapters import error_of, field

EXTENSIONS = {
    "classification",
    "model_repository",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
}


def test_live(client):
    assert client.call("is_server_live") is True


def test_ready(client):
    assert client.call("is_server_ready") is True


@pytest.mark.parametrize(
    "model, version, ready",
    [
        ("add_sub", "", True),
        ("add_sub", "1", True),
        ("add_sub", "99", False),
        ("nope", "", False),
        ("two_versions", "1", False),
        ("two_versions", "2", True),
        ("dotted.name", "", True),
    ],
)
def test_model_not_ready_is_no_error(client, model, version, ready):
    assert client.call("is_model_ready", model, version) is ready


@pytest.mark.parametrize(
    "path, body",
    [
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True}),
        ("/v2/models/add_sub/ready", {"name": "add_sub", "ready": True}),
        ("/v2/models/add_sub/versions/1/ready", {"name": "add_sub", "ready": True}),
    ],
)
def test_health_bodies_are_json_that_the_kserve_sdk_reads(server, path, body):
    reply = server.call("GET", path)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert {key: reply.json()[key] for key in body} == body


def test_every_response_reports_the_capacity_of_all_models(server):
    paths = ["/v2/health/ready", "/v2/models/add_sub/ready", "/v2/models/dotted.name/ready"]
    capacities = {server.call("GET", path).headers["weir-capacity"] for path in paths}
    assert len(capacities) == 1, capacities
    # With several models, the capacity is more than one request.
    assert int(capacities.pop()) > 1


@pytest.mark.parametrize(
    "path, status, text",
    [
        ("/v2/models/nope/ready", 404, "Request for unknown model: 'nope' is not found"),
        ("/v2/models/nope", 404, "Request for unknown model: 'nope' is not found"),
        ("/v2/models/nope/config", 404, "Request for unknown model: 'nope' is not found"),
        ("/v2/models/add_sub/versions/9", 404, "'add_sub' version 9 is not found"),
        ("/v2/models/add_sub/versions/9/ready", 404, "'add_sub' version 9 is not found"),
        ("/v2/models/add_sub/versions/9/config", 404, "'add_sub' version 9 is not found"),
        ("/v2/models/add_sub/versions/abc", 404, "Not Found"),
        ("/v2/models/add_sub/versions/-1", 404, "Not Found"),
        ("/v2/models/a%2Fb", 404, "Request for unknown model: 'a/b' is not found"),
        ("/v2/models/%C3%A9", 404, "Request for unknown model: 'é' is not found"),
        ("/v2/models/..", 404, "Request for unknown model: '..' is not found"),
        ("/v2/unknown", 404, "Not Found"),
        ("/v3", 404, "Not Found"),
        ("/v2/models/add_sub/nothing", 404, "Not Found"),
        ("/v2/models/add_sub/infer", 405, "Method Not Allowed"),
        ("/v2/repository/index", 405, "Method Not Allowed"),
    ],
)
def test_unknown_paths(server, path, status, text):
    reply = server.call("GET", path)
    assert (reply.status, text in reply.error()) == (status, True), reply


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/v2", "/v2/health/live", "/v2/models/add_sub/config"])
def test_wrong_methods(server, method, path):
    reply = server.call(method, path, b"")
    assert (reply.status, reply.error()) == (405, "Method Not Allowed")
    assert reply.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path, same_as",
    [
        ("/v2/", "/v2"),
        ("/v2/models/add_sub/", "/v2/models/add_sub"),
        ("/v2/models/dotted%2Ename", "/v2/models/dotted.name"),
        ("/v2/models/add%5Fsub/config", "/v2/models/add_sub/config"),
        ("/v2/health/live/", "/v2/health/live"),
        ("/v2/health/live?verbose=1", "/v2/health/live"),
        ("/v2/models/add_sub/versions/01", "/v2/models/add_sub/versions/1"),
    ],
)
def test_other_spellings_of_a_path(server, path, same_as):
    reply = server.call("GET", path)
    assert reply.status == 200
    assert reply.json() == server.call("GET", same_as).json()


@pytest.mark.parametrize("path", ["/v2", "/v2/health/ready", "/v2/models/add_sub", "/v2/models/nope"])
def test_head_is_get_without_the_body(server, path):
    get, head = (server.call(method, path) for method in ("GET", "HEAD"))
    heads = [(reply.status, reply.headers["content-type"], reply.headers["content-length"]) for reply in (get, head)]
    assert heads[0] == heads[1] and head.body == b""
    assert server.call("HEAD", "/v2/models/add_sub/infer").status == 405


def test_model_list(server):
    models = server.call("GET", "/v2/models").json()["models"]
    assert {"add_sub", "digits", "ragged", "dotted.name"} <= set(models)
    assert len(models) == len(set(models))


def test_server_metadata(client):
    metadata = client.call("get_server_metadata")
    assert field(metadata, "name") == "triton"
    assert field(metadata, "version").count(".") >= 1
    assert EXTENSIONS <= set(field(metadata, "extensions"))


def tensors(metadata, kind: str) -> list:
    return [
        (field(row, "name"), field(row, "datatype"), [int(dim) for dim in field(row, "shape")])
        for row in field(metadata, kind)
    ]


@pytest.mark.parametrize(
    "model, inputs, outputs",
    [
        (
            "add_sub",
            [("INPUT0", "FP32", [-1, 16]), ("INPUT1", "FP32", [-1, 16])],
            [("OUTPUT0", "FP32", [-1, 16]), ("OUTPUT1", "FP32", [-1, 16])],
        ),
        # Without batching, no dimension is added.
        ("nobatch", [("INPUT0", "FP32", [4])], [("OUTPUT0", "FP32", [4])]),
        # TYPE_STRING is BYTES on the wire.
        ("identity_str", [("INPUT0", "BYTES", [-1])], [("OUTPUT0", "BYTES", [-1])]),
        ("var2", [("INPUT0", "FP32", [-1, -1, -1])], [("OUTPUT0", "FP32", [-1, -1, -1])]),
        # Clients see `dims`, not the shape after `reshape`.
        ("reshape", [("INPUT0", "FP32", [-1, 4])], [("OUTPUT0", "FP32", [-1, 4])]),
        (
            "digits",
            [("image", "FP32", [-1, 1, 8, 8])],
            [("logits", "FP32", [-1, 10]), ("digit", "INT64", [-1, 1])],
        ),
    ],
)
def test_model_metadata(client, model, inputs, outputs):
    metadata = client.call("get_model_metadata", model)
    assert field(metadata, "name") == model
    assert list(field(metadata, "versions")) == ["1"]
    assert field(metadata, "platform") == "pytorch_libtorch"
    assert tensors(metadata, "inputs") == inputs
    assert tensors(metadata, "outputs") == outputs


@pytest.mark.parametrize(
    "model, versions",
    [
        ("latest_version", ["3"]),
        ("two_versions", ["2", "3"]),
        ("all_versions", ["1", "2", "3"]),
        ("some_versions", ["1", "3"]),
    ],
)
def test_version_policies_and_folders_that_are_no_version(blocking, model, versions):
    metadata = blocking.call("get_model_metadata", model)
    assert sorted(field(metadata, "versions")) == versions


def test_metadata_of_a_version_names_that_version(blocking):
    for version in ("2", "3"):
        metadata = blocking.call("get_model_metadata", "two_versions", version)
        assert list(field(metadata, "versions")) == [version]


def test_metadata_of_an_unknown_model(client):
    assert "Request for unknown model: 'nope' is not found" in error_of(
        client, "get_model_metadata", "nope"
    )


def test_http_config_is_the_proto_as_json_with_numbers(server):
    config = server.call("GET", "/v2/models/add_sub/config").json()
    assert config["name"] == "add_sub"
    assert config["max_batch_size"] == 8
    assert config["platform"] == "pytorch_libtorch"
    first = config["input"][0]
    assert (first["name"], first["data_type"], first["dims"]) == ("INPUT0", "TYPE_FP32", [16])
    # Fields that the file omits are filled in, as in Triton.
    assert config["version_policy"] == {"latest": {"num_versions": 1}}
    assert config["instance_group"][0]["count"] == 1
    assert config["default_model_filename"] == "model.pt"


def test_http_config_writes_64_bit_fields_as_numbers(server):
    batching = server.call("GET", "/v2/models/dyn_pref/config").json()["dynamic_batching"]
    assert batching["preferred_batch_size"] == [2, 6]
    assert batching["max_queue_delay_microseconds"] == 2000000
    queue = server.call("GET", "/v2/models/dyn_queue/config").json()["dynamic_batching"]
    assert queue["default_queue_policy"]["max_queue_size"] == 8


def test_config_without_preferred_size_prefers_the_largest(server):
    config = server.call("GET", "/v2/models/simple/config").json()
    assert config["dynamic_batching"]["preferred_batch_size"] == [8]


@pytest.mark.parametrize("name", ["grpc", "grpc.aio"])
def test_grpc_config_decodes_with_tritons_proto(server, name):
    import adapters

    client = adapters.connect(name, server)
    config = client.call("get_model_config", "add_sub").config
    assert (config.name, config.max_batch_size, config.platform) == ("add_sub", 8, "pytorch_libtorch")
    assert [(i.name, i.data_type, list(i.dims)) for i in config.input] == [
        ("INPUT0", grpc_client.model_config_pb2.TYPE_FP32, [16]),
        ("INPUT1", grpc_client.model_config_pb2.TYPE_FP32, [16]),
    ]
    policy = client.call("get_model_config", "dyn_timeout").config.dynamic_batching
    assert policy.default_queue_policy.default_timeout_microseconds == 100000
    assert policy.default_queue_policy.allow_timeout_override is True
    client.close()


def test_model_without_config_is_served_with_inferred_signature(server):
    metadata = server.call("GET", "/v2/models/noconfig").json()
    assert [row["datatype"] for row in metadata["inputs"]] == ["FP32"]
    name, output = metadata["inputs"][0]["name"], metadata["outputs"][0]["name"]
    body = wire.request(wire.tensor(name, "FP32", [1, 4], [1, 2, 3, 4]))
    assert server.infer("noconfig", body).outputs()[output]["data"] == [3, 6, 9, 12]


@pytest.mark.parametrize("service", ["", "inference.GRPCInferenceService"])
def test_grpc_health_check(server, service):
    request = bytes([0x0A, len(service)]) + service.encode() if service else b""
    with grpc.insecure_channel(server.grpc) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        # HealthCheckResponse { status: SERVING }
        assert check(request, timeout=5) == b"\x08\x01"


def test_grpc_health_watch_sends_the_state_at_once(server):
    with grpc.insecure_channel(server.grpc) as channel:
        stopwatch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=5)
        assert next(stopwatch) == b"\x08\x01"
        stopwatch.cancel()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_grpc_reflection_lists_the_service(server, version):
    with grpc.insecure_channel(server.grpc) as channel:
        info = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        )
        # ServerReflectionRequest { list_services: "*" }
        answer = next(info(iter([b"\x3a\x01*"]), timeout=5))
    assert b"inference.GRPCInferenceService" in answer


def test_responses_carry_timing_and_an_id(server):
    reply = server.infer("add_sub", wire.add_sub(), {"x-request-id": "abc-7"})
    assert reply.headers["x-request-id"] == "abc-7"
    parts = {part.split(";")[0].strip() for part in reply.headers["server-timing"].split(",")}
    assert {"queue", "compute"} <= parts


def test_head_of_metrics(server):
    reply = wire.call(server.metrics_port, "GET", "/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain")


def test_responses_are_numpy_arrays(client):
    result = client.infer("nobatch", {"INPUT0": np.arange(4, dtype=np.float32)})
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), [0, 2, 4, 6])
