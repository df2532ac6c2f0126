"""`weir up` with several services at one address, which routes by the names of their models."""

import json
import socket
import subprocess

import grpc
import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.grpc import service_pb2

import adapters
import gateway
import samples
import wire
from adapters import error_of, field
from server import BINARY, DIGITS_INPUTS, ROOT, Server, wait_until
from test_perf_analyzer import analyze, check

EXAMPLES = [ROOT / "examples" / name for name in ("digits", "ragged")]
# Both services sleep until a request arrives; the first may be read from a slow disk.
READY_DEADLINE = 60.0
TOKENS = {
    "tokens": np.array([[3, 1, 4, 1, 5]], dtype=np.int64),
    "mask": np.ones((1, 5), dtype=np.float32),
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    """Starts the two examples, whose services have the same names as their models."""
    folder = tmp_path_factory.mktemp("platform")
    running = Server(folder / "log", [])
    running.command = gateway.up(
        *EXAMPLES, port=running.http_port, admin_port=running.metrics_port, state=folder / "state"
    )
    running.command += ["--runtime", str(BINARY)]
    running.grpc_port, running.grpc = running.http_port, running.http
    running.spawn()
    loaded = lambda: all(row["ready"] == "True" for row in status(running)["services"])  # noqa: E731
    wait_until(lambda: running.responds("/v2/health/live") and loaded(), READY_DEADLINE, "both services are ready")
    yield running
    running.stop()


@pytest.fixture(scope="module", params=adapters.NAMES)
def platform_client(request, platform):
    """Each of tritonclient's clients in turn."""
    connected = adapters.connect(request.param, platform)
    yield connected
    connected.close()


def status(platform) -> dict:
    return wire.call(platform.metrics_port, "GET", "/status").json()


# --- Responses of the gateway for all services.


def test_health(platform_client):
    assert platform_client.call("is_server_live") is True
    assert platform_client.call("is_server_ready") is True


def test_metadata_of_the_server(platform_client):
    metadata = platform_client.call("get_server_metadata")
    assert field(metadata, "name") == "weir"
    extensions = set(field(metadata, "extensions"))
    assert {"model_repository", "statistics", "binary_tensor_data"} <= extensions
    assert not {"trace", "logging", "system_shared_memory"} & extensions


def test_index_is_the_union(platform_client):
    index = platform_client.call("get_model_repository_index")
    rows = index if isinstance(index, list) else index.models
    found = {field(row, "name"): field(row, "state") for row in rows}
    assert found == {"digits": "READY", "ragged": "READY"}


def test_list_of_models(platform):
    for path in ("/v2/models", "/v2/models/"):
        assert platform.call("GET", path).json() == {"models": ["digits", "ragged"]}


def test_list_of_models_for_clients_of_v1_and_of_openai(platform):
    found = platform.call("GET", "/v1/models").json()
    assert found["models"] == ["digits", "ragged"]
    # Both services run weir-runtime, which has no chat or completions.
    assert (found["object"], found["data"]) == ("list", [])


@pytest.mark.parametrize(
    "method, arguments",
    [
        ("load_model", ["digits"]),
        ("unload_model", ["digits"]),
        ("get_system_shared_memory_status", []),
        ("register_system_shared_memory", ["region", "/region", 8]),
        ("unregister_system_shared_memory", []),
        ("get_cuda_shared_memory_status", []),
        ("get_trace_settings", []),
        ("get_log_settings", []),
        ("update_log_settings", [{"log_info": True}]),
        ("get_inference_statistics", []),
    ],
)
def test_calls_for_one_runtime_are_unimplemented(platform_client, method, arguments):
    assert "needs one service: use its host" in error_of(platform_client, method, *arguments)


@pytest.mark.parametrize(
    "method, path",
    [
        ("POST", "/v2/repository/models/digits/load"),
        ("GET", "/v2/models/stats"),
        ("GET", "/v2/trace/setting"),
        ("GET", "/v2/logging"),
        ("GET", "/v2/systemsharedmemory/status"),
    ],
)
def test_calls_for_one_runtime_are_501(platform, method, path):
    reply = platform.call(method, path)
    assert (reply.status, path in reply.error()) == (501, True)


def test_a_call_of_openai_that_names_no_model_is_501_in_its_form(platform):
    reply = platform.call("POST", "/openai/v1/audio/speech")
    error = reply.json()["error"]
    assert (reply.status, "/openai/v1/audio/speech" in error["message"], sorted(error)) == (501, True, ["code", "message", "param", "type"])


# --- Requests from other machines, from pages of other sites and from other users of the machine are refused.


@pytest.mark.parametrize("path", ["repository/index", "repository/models/digits/unload", "logging", "trace/setting"])
def test_control_routes_of_a_service_are_refused(platform, path):
    reply = platform.call("POST", f"/serving/default/digits/v2/{path}", b"{}")
    assert (reply.status, "weir.dev/control-routes" in reply.error()) == (403, True)


def replica_ports(platform) -> list[int]:
    """Returns the HTTP ports of the running replicas, as given in their command lines."""
    flag = "--http-port="
    children = psutil.Process(platform.process.pid).children(recursive=True)
    words = [word for child in children for word in child.cmdline()]
    return [int(word.removeprefix(flag)) for word in words if word.startswith(flag)]


def test_replicas_refuse_control_routes(platform):
    infer = {"inputs": [wire.tensor("image", "FP32", [1, 64], [0.0] * 64)]}
    # The request wakes the replica if it sleeps; the body does not matter.
    platform.infer("digits", infer)
    ports = replica_ports(platform)
    assert ports
    for port in ports:
        assert wire.call(port, "POST", "/v2/repository/index", b"{}").status == 403
        assert wire.call(port, "GET", "/v2/health/live").status == 200


FOREIGN = {"host": {"Host": "evil.example"}, "origin": {"Host": "localhost", "Origin": "http://evil.example"}}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
def test_pages_of_other_sites_are_refused(platform, headers):
    for path in ("/", "/v2/health/live", "/v2/models/digits", "/serving/default/digits/v2/models/digits"):
        assert platform.call("GET", path, headers=headers).status == 403, path
    for path in ("/metrics", "/status", "/routes"):
        assert wire.call(platform.metrics_port, "GET", path, headers=headers).status == 403, path


def test_the_admin_port_and_the_state_are_for_this_machine_and_user(platform):
    # Another address of this machine, on which a port that listens on all addresses would accept.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", platform.metrics_port), timeout=5)
    assert (platform.log.parent / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("service", ["", "inference.GRPCInferenceService"])
def test_grpc_health_accepts_the_service_names_that_clients_send(platform, service):
    request = bytes([0x0A, len(service)]) + service.encode() if service else b""
    with grpc.insecure_channel(platform.grpc) as channel:
        assert channel.unary_unary("/grpc.health.v1.Health/Check")(request, timeout=5) == b"\x08\x01"
        watching = channel.unary_stream("/grpc.health.v1.Health/Watch")(request, timeout=5)
        assert next(watching) == b"\x08\x01"
        watching.cancel()


@pytest.mark.parametrize(
    "path", ["/inference.GRPCInferenceService/Nothing", "/no.Service/Call", "/AWS.ALB/healthcheck"]
)
def test_unknown_calls_over_grpc_are_unimplemented(platform, path):
    with grpc.insecure_channel(platform.grpc) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(path)(b"", timeout=5)
    error = caught.value
    assert (error.code(), path in error.details()) == (grpc.StatusCode.UNIMPLEMENTED, True), error


def test_the_root_says_that_the_server_is_alive(platform):
    # KServe's client requests this path from servers that speak V1, and so do load balancers without a configured path.
    assert platform.call("GET", "/").json() == {"status": "alive"}


def test_head_has_no_body(platform):
    reply = platform.call("HEAD", "/v2/health/ready")
    assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize(
    "method, path, status, allowed",
    [
        ("GET", "/nothing", 404, None),
        ("GET", "/v2/nothing", 404, None),
        ("OPTIONS", "/v2/health/live", 405, "GET, HEAD"),
        ("POST", "/v2", 405, "GET, HEAD"),
        ("GET", "/v2/repository/index", 405, "POST"),
        ("GET", "/v2/models/digits/infer", 405, "POST"),
        ("GET", "/v2/models/digits/nothing", 404, None),
    ],
)
def test_errors_have_one_form(platform, method, path, status, allowed):
    reply = platform.call(method, path)
    assert (reply.status, bool(reply.error())) == (status, True)
    assert reply.headers.get("allow") == allowed


# --- Requests routed by the name of a model.


@pytest.mark.parametrize(
    "model, version, ready", [("digits", "", True), ("digits", "1", True), ("digits", "9", False), ("nope", "", False)]
)
def test_readiness_of_a_model(platform_client, model, version, ready):
    assert platform_client.call("is_model_ready", model, version) is ready


def test_metadata_configuration_and_statistics_of_a_model(platform_client):
    assert field(platform_client.call("get_model_metadata", "digits"), "platform") == "pytorch_libtorch"
    config = platform_client.call("get_model_config", "digits")
    assert field(getattr(config, "config", config), "max_batch_size") == 64
    (row,) = field(platform_client.call("get_inference_statistics", "ragged"), "model_stats")
    assert field(row, "name") == "ragged"


def test_every_digit_is_recognised(platform_client):
    for image, digit in samples.digits().values():
        answer = platform_client.infer("digits", {"image": image.astype(np.float32)})
        assert answer.as_numpy("digit").item() == digit


def test_fields_of_a_message_come_in_any_order(platform):
    # Go encodes messages that are made from descriptors in random order, and so does k6.
    rows = 64
    image = np.zeros((rows, 1, 8, 8), dtype=np.float32)
    shape = {"name": "image", "datatype": "FP32", "shape": image.shape}
    parts = [
        {"raw_input_contents": [image.tobytes()]},
        {"inputs": [shape]},
        {"model_name": "digits"},
    ]
    body = b"".join(service_pb2.ModelInferRequest(**part).SerializeToString() for part in parts)
    with grpc.insecure_channel(platform.grpc) as channel:
        answer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(body, timeout=10)
    outputs = service_pb2.ModelInferResponse.FromString(answer).outputs
    assert [list(output.shape) for output in outputs] == [[rows, 10], [rows, 1]]


def test_another_service_at_the_same_address(platform_client):
    assert platform_client.infer("ragged", TOKENS).as_numpy("per_token").shape == (1, 5, 4)


def test_unknown_model_lists_the_known_ones(platform_client):
    text = error_of(platform_client, "infer", "nope", TOKENS)
    assert "nope" in text and "known services: default/digits, default/ragged" in text


def test_responses_name_revision_time_and_request(platform):
    body = (DIGITS_INPUTS / "digit-7-a.json").read_bytes()
    reply = platform.infer("digits", body, {"x-request-id": "seven"})
    assert reply.outputs()["digit"]["data"] == [7]
    assert reply.headers["weir-revision"] == "digits-predictor-00001"
    assert reply.headers["x-request-id"] == "seven"
    assert reply.headers["server-timing"].startswith("queue;dur=")


def test_paths_and_hosts_route_to_a_service(platform):
    path = "/v2/models/digits"
    by_path = platform.call("GET", "/serving/default/digits" + path)
    by_host = platform.call("GET", path, headers={"Host": "digits-default.example.com"})
    assert by_path.json() == by_host.json() == platform.call("GET", path).json()
    # These paths reach the service's own runtime.
    reply = platform.call("GET", "/serving/default/digits/v2")
    assert reply.json()["name"] == "triton"


@pytest.mark.parametrize("colon", [":", "%3A", "%3a"])
def test_the_colon_of_a_v1_path_may_be_encoded(platform, colon):
    body = json.dumps({"instances": np.zeros((1, 1, 8, 8)).tolist()}).encode()
    for prefix in ["", "/serving/default/digits"]:
        reply = platform.call("POST", f"{prefix}/v1/models/digits{colon}predict", body)
        assert (reply.status, len(reply.json()["predictions"])) == (200, 1)


def test_one_connection_serves_both_services(platform):
    connection = wire.Connection(platform.http_port)
    for path in ("/v2/models/digits", "/v2/nothing", "/v2/models/ragged", "/v2", "/v2/models/digits/ready"):
        connection.request("GET", path)
        response = connection.getresponse()
        body = json.loads(response.read())
        assert response.status == (404 if path == "/v2/nothing" else 200), body
        assert connection.sock is not None
    connection.close()


@pytest.mark.parametrize("size", [300_000, 5_000_000])
def test_connection_is_reused_after_a_refusal(platform, size):
    """The body of a request that is not routed is read to its end: otherwise a proxy in front would return 502 for the
    reset."""
    connection = wire.Connection(platform.http_port)
    for _ in range(2):
        connection.request("POST", "/v2/models/nope/infer", bytes(size))
        response = connection.getresponse()
        assert (response.status, list(json.loads(response.read()))) == (404, ["error"])
        assert connection.sock is not None
    connection.close()


def test_stream_of_requests(platform):
    answers: list = []
    image, digit = samples.digits()["digit-7-a"]
    row = grpc_client.InferInput("image", [1, 1, 8, 8], "FP32")
    row.set_data_from_numpy(image.astype(np.float32))
    with grpc_client.InferenceServerClient(platform.grpc) as client:
        client.start_stream(lambda result, error: answers.append(error or result.as_numpy("digit").item()))
        for _ in range(5):
            client.async_stream_infer("digits", [row])
        client.stop_stream()
    assert answers == [digit] * 5


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_perf_analyzer(platform, tmp_path, protocol):
    check(*analyze(platform, tmp_path, "digits", protocol, "--concurrency-range", "2"))


def test_weir_infer_reads_a_picture(platform):
    command = [gateway.BINARY, "infer", "digits", "--url", f"http://{platform.http}", "--range", "0,16"]
    command += ["--image", DIGITS_INPUTS / "digit-7-a.png"]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "digit INT64 [1,1]: 7\n" in plain.stdout, plain
    best = subprocess.run([*command, "--top", "2"], capture_output=True, text=True, timeout=60)
    first = best.stdout.splitlines()[1]
    assert first.split()[1:] == ["7", "seven"], best
