"""The model repository interface: index, load, unload, overrides, and models that fail to load."""

import base64
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import adapters
import wire
from adapters import error_of
from server import BROKEN, DIGITS, GOOD, wait_until
from wire import request, tensor

ONE = request(tensor("INPUT0", "INT32", [1, 1], [10]))
PLAIN_FP32 = request(tensor("INPUT0", "FP32", [1, 4], [1, 2, 3, 4]))


def index(server, **body) -> dict:
    reply = server.call("POST", "/v2/repository/index", body)
    assert reply.status == 200, reply
    return {(row["name"], row.get("version", "")): row for row in reply.json()}


def load(server, model: str, **parameters) -> wire.Reply:
    body = {"parameters": parameters} if parameters else b""
    return server.call("POST", f"/v2/repository/models/{model}/load", body)


def unload(server, model: str) -> wire.Reply:
    return server.call("POST", f"/v2/repository/models/{model}/unload", b"")


def config_of(model: str, **changes) -> str:
    config = {
        "name": model,
        "platform": "pytorch_libtorch",
        "max_batch_size": 8,
        "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [4]}],
    }
    return json.dumps({**config, **changes})


@pytest.fixture
def repository(tmp_path):
    """Creates a repository for one test."""
    root = tmp_path / "repository"
    root.mkdir()
    for model in ("warmed", "latest_version", "add_sub", "slow", "fail"):
        shutil.copytree(GOOD / model, root / model)
    return root


@pytest.fixture
def explicit(start, repository):
    return start([repository], "--model-control-mode=explicit")


# --- Mode none, with the shared server.


@pytest.mark.parametrize("call", ["load", "unload"])
def test_control_is_refused_in_mode_none(server, call):
    reply = server.call("POST", f"/v2/repository/models/add_sub/{call}", b"")
    assert reply.status == 503
    assert reply.error() == "explicit model load / unload is not allowed if polling is enabled"


def test_control_is_refused_in_mode_none_over_grpc(client):
    text = error_of(client, "load_model", "add_sub")
    assert "explicit model load / unload is not allowed if polling is enabled" in text


def test_index_lists_versions_and_states(server):
    rows = index(server)
    assert rows["add_sub", "1"]["state"] == "READY"
    assert {version for name, version in rows if name == "two_versions" and
            rows[name, version].get("state") == "READY"} == {"2", "3"}
    assert ("digits", "1") in rows and ("ragged", "1") in rows


def test_index_by_the_clients(client):
    answer = client.call("get_model_repository_index")
    rows = answer if isinstance(answer, list) else answer.models
    names = {adapters.field(row, "name") for row in rows}
    assert {"add_sub", "digits", "simple"} <= names


@pytest.mark.parametrize("value", ["x", 1, None, []])
def test_index_with_a_ready_that_is_no_boolean(server, value):
    reply = server.call("POST", "/v2/repository/index", {"ready": value})
    assert reply.status == 400
    assert "Invalid value for 'ready': expected a boolean" in reply.error()


def test_index_body_nested_very_deep(server):
    for depth, status in ((60_000, 400), (250_000, 413)):
        reply = server.call("POST", "/v2/repository/index", b'{"ready":' + b"[" * depth)
        assert reply.status == status and reply.error()
    assert index(server)


def test_named_repositories_do_not_exist(server):
    reply = server.call("POST", "/v2/repository/other/index", b"")
    assert reply.status == 501
    assert "'repository_name' specification is not supported" in reply.error()


# --- Mode explicit.


def test_explicit_mode_starts_empty_and_loads_on_request(explicit):
    assert all("state" not in row or row["state"] != "READY" for row in index(explicit).values())
    assert {name for name, _ in index(explicit)} >= {"warmed", "add_sub"}
    assert index(explicit, ready=True) == {}
    assert explicit.infer("warmed", PLAIN_FP32).status in (400, 404)
    reply = load(explicit, "warmed")
    assert (reply.status, reply.body) == (200, b"")
    assert set(index(explicit, ready=True)) == {("warmed", "1")}
    assert explicit.infer("warmed", PLAIN_FP32).outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8]
    assert (unload(explicit, "warmed").status, index(explicit, ready=True)) == (200, {})
    # The call does not wait for the running requests of the model.
    row = lambda: next(row for (name, _), row in index(explicit).items() if name == "warmed")  # noqa: E731
    wait_until(lambda: row()["state"] == "UNAVAILABLE", 10, "the model is unloaded")
    assert row()["reason"] == "unloaded"
    assert explicit.infer("warmed", PLAIN_FP32).status in (400, 404, 503)
    # A model that was unloaded on purpose does not make the server unready.
    assert explicit.call("GET", "/v2/health/ready").status == 200


@pytest.mark.parametrize("name", adapters.NAMES)
def test_load_and_unload_by_the_clients(start, repository, name):
    server = start([repository], "--model-control-mode=explicit")
    client = adapters.connect(name, server)
    client.call("load_model", "warmed")
    # While a model loads, the server is not ready, as in Triton; a gateway learns from its next probe that the server
    # is ready again.
    wait_until(lambda: client.call("is_model_ready", "warmed") is True, 5, "the loaded model is ready")
    ones = np.ones((1, 4), dtype=np.float32)
    assert client.infer("warmed", {"INPUT0": ones}).as_numpy("OUTPUT0").tolist() == [[2] * 4]
    client.call("unload_model", "warmed")
    assert client.call("is_model_ready", "warmed") is False
    assert "nope" in error_of(client, "load_model", "nope")
    # Unloading an unknown model does nothing, as in Triton.
    client.call("unload_model", "nope")
    client.close()


def test_models_to_load_at_start(start, repository):
    server = start([repository], "--model-control-mode=explicit", "--load-model=add_sub", "--load-model=warmed")
    assert set(index(server, ready=True)) == {("add_sub", "1"), ("warmed", "1")}


def test_star_loads_all_at_start(start, repository):
    server = start([repository], "--model-control-mode=explicit", "--load-model=*")
    assert {name for name, _ in index(server, ready=True)} == {
        "warmed", "latest_version", "add_sub", "slow", "fail"
    }


def test_unknown_load_parameters(explicit):
    reply = explicit.call(
        "POST", "/v2/repository/models/add_sub/load", {"parameters": {"mine": "x"}}
    )
    assert (reply.status, reply.error()) == (400, "unrecognized load parameter 'mine'.")


def test_loading_an_unknown_model(explicit):
    reply = load(explicit, "nope")
    assert 400 <= reply.status < 500
    assert "failed to load 'nope', failed to poll from model repository" in reply.error()


@pytest.mark.parametrize("name", ["..", "a%2f..%2fb", "%2e%2e%2fwarmed", "a%5cb"])
def test_names_that_leave_the_repository(explicit, name):
    reply = load(explicit, name)
    assert 400 <= reply.status < 500
    assert reply.error()


def test_load_names_over_grpc(explicit):
    client = adapters.connect("grpc", explicit)
    assert "Model name cannot be empty" in error_of(client, "load_model", "")
    for name in ("..", "a/../b", "/etc"):
        text = error_of(client, "load_model", name)
        assert "must not contain path traversal characters" in text or "failed to load" in text
    client.close()


def test_config_override_holds_until_a_plain_load(explicit):
    override = config_of("warmed", max_batch_size=2, instance_group=[{"count": 3, "kind": "KIND_CPU"}])
    assert load(explicit, "warmed", config=override).status == 200
    config = explicit.call("GET", "/v2/models/warmed/config").json()
    assert (config["max_batch_size"], config["instance_group"][0]["count"]) == (2, 3)
    assert explicit.infer("warmed", PLAIN_FP32).outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8]
    assert load(explicit, "warmed").status == 200
    config = explicit.call("GET", "/v2/models/warmed/config").json()
    assert (config["max_batch_size"], config["instance_group"][0]["count"]) == (8, 2)


@pytest.mark.parametrize(
    "config", ["not json", "[]", '{"max_batch_size": "many"}', '{"max_bach_size": 2}', '{"input": 7}']
)
def test_invalid_config_overrides(explicit, config):
    assert load(explicit, "warmed").status == 200
    reply = load(explicit, "warmed", config=config)
    assert reply.status == 400 and reply.error()
    assert explicit.infer("warmed", PLAIN_FP32).outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8]


@pytest.mark.parametrize("value", [7, True, None, {"a": 1}])
def test_load_parameters_of_the_wrong_type(explicit, value):
    reply = load(explicit, "warmed", config=value)
    assert reply.status == 400 and "config" in reply.error()


def test_model_file_sent_with_the_request(explicit):
    file = base64.b64encode((GOOD / "warmed" / "1" / "model.pt").read_bytes()).decode()
    reply = load(explicit, "sent", **{"config": config_of("sent"), "file:1/model.pt": file})
    assert (reply.status, reply.body) == (200, b"")
    assert explicit.infer("sent", PLAIN_FP32).outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8]


def test_model_file_in_base64_with_line_breaks(explicit):
    """The lines have 72 characters, with a line break at the end, as Triton's C++ client writes them."""
    text = base64.b64encode((GOOD / "warmed" / "1" / "model.pt").read_bytes()).decode()
    lines = "".join(text[at : at + 72] + "\n" for at in range(0, len(text), 72))
    reply = load(explicit, "sent", **{"config": config_of("sent"), "file:1/model.pt": lines})
    assert (reply.status, reply.body) == (200, b"")
    assert explicit.infer("sent", PLAIN_FP32).outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8]


def test_model_file_sent_over_grpc(explicit):
    client = adapters.connect("grpc", explicit)
    file = (GOOD / "warmed" / "1" / "model.pt").read_bytes()
    client.call("load_model", "sent", config=config_of("sent"), files={"file:7/model.pt": file})
    assert client.call("is_model_ready", "sent", "7") is True
    client.close()


def test_a_response_cache_is_left_out_with_a_note(explicit):
    """Triton does the same if the server has no cache; responses do not change."""
    config = config_of("warmed", response_cache={"enable": True})
    assert load(explicit, "warmed", config=config).status == 200
    assert explicit.infer("warmed", PLAIN_FP32).outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8]
    shown = explicit.call("GET", "/v2/models/warmed/config").json()
    assert shown["response_cache"] == {"enable": True}
    assert "response_cache accepted without effect" in explicit.log.read_text()


def test_files_without_a_config(explicit):
    file = base64.b64encode(b"x").decode()
    reply = load(explicit, "sent", **{"file:1/model.pt": file})
    assert 400 <= reply.status < 500 and reply.error()


@pytest.mark.parametrize(
    "path",
    ["../escaped", "1/../../escaped", "/tmp/escaped", "1/" + "a" * 256, "", "1/a\x00b", "a\\..\\b"],
)
def test_file_names_that_are_not_allowed(explicit, path, tmp_path):
    file = base64.b64encode(b"x").decode()
    reply = load(explicit, "sent", **{"config": config_of("sent"), f"file:{path}": file})
    assert 400 <= reply.status < 500 and reply.error()
    assert not list(tmp_path.rglob("escaped*"))


def test_file_that_is_not_base64(explicit):
    reply = load(explicit, "sent", **{"config": config_of("sent"), "file:1/model.pt": "***"})
    assert reply.status == 400 and "file:1/model.pt" in reply.error()


def test_reload_picks_up_a_new_version(explicit, repository):
    assert load(explicit, "latest_version").status == 200
    assert explicit.infer("latest_version", ONE).outputs()["OUTPUT0"]["data"] == [13]
    shutil.copytree(repository / "latest_version" / "1", repository / "latest_version" / "4")
    assert load(explicit, "latest_version").status == 200
    answer = explicit.infer("latest_version", ONE)
    assert (answer.json()["model_version"], answer.outputs()["OUTPUT0"]["data"]) == ("4", [11])


def test_reload_that_fails_leaves_the_old_one_serving(explicit, repository):
    assert load(explicit, "warmed").status == 200
    (repository / "warmed" / "1" / "model.pt").write_bytes(b"not a model")
    reply = load(explicit, "warmed")
    assert reply.status == 400
    assert "load failed for model 'warmed'" in reply.error()
    assert explicit.infer("warmed", PLAIN_FP32).outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8]
    assert explicit.call("GET", "/v2/models/warmed/ready").status == 200


def test_unload_lets_running_requests_finish(explicit):
    assert load(explicit, "slow").status == 200
    # The requests have as many rows as a full batch, so that the two never share one.
    full = request(tensor("INPUT0", "INT32", [8, 1], [10] * 8))
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(explicit.infer, "slow", full) for _ in range(2)]
        explicit.wait_for_pending("slow", 1)
        assert unload(explicit, "slow").status == 200
        assert explicit.infer("slow", ONE).status in (400, 404, 503)
        assert [r.result().outputs()["OUTPUT0"]["data"] for r in running] == [[10] * 8] * 2


def test_unload_ends_the_wait_for_more_requests(explicit):
    """No further request will join the batch. Without this, the request would keep its version open for the whole
    delay."""
    rows = {"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [1]}
    delay = {"max_queue_delay_microseconds": 600_000_000}
    config = {"backend": "echo", "max_batch_size": 8, "input": [rows], "output": [rows], "dynamic_batching": delay}
    assert load(explicit, "slow", config=json.dumps(config)).status == 200
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(explicit.infer, "slow", ONE)
        explicit.wait_for_pending("slow", 1)
        assert unload(explicit, "slow").status == 200
        assert waiting.result().outputs()["INPUT0"]["data"] == [10]


def test_reload_under_load_fails_no_request(explicit, repository):
    """Versions are replaced side by side; a request is answered by the old or the new one."""
    assert load(explicit, "latest_version").status == 200
    done, answers = threading.Event(), []

    def ask() -> None:
        while not done.is_set():
            reply = explicit.infer("latest_version", ONE)
            answers.append((reply.status, reply.body if reply.status != 200 else b""))

    config = repository / "latest_version" / "config.pbtxt"
    text = config.read_text()
    with ThreadPoolExecutor() as pool:
        workers = [pool.submit(ask) for _ in range(4)]
        for n in range(15):
            config.write_text(text + f'parameters {{ key: "n" value {{ string_value: "{n}" }} }}\n')
            assert load(explicit, "latest_version").status == 200
        done.set()
        for worker in workers:
            worker.result()
    assert len(answers) > 20
    assert {status for status, _ in answers} == {200}, [a for a in answers if a[0] != 200][:3]


def test_poll_mode_finds_new_models_and_drops_removed_ones(start, repository):
    server = start([repository], "--model-control-mode=poll", "--repository-poll-secs=1")
    assert load(server, "add_sub").status == 503
    shutil.copytree(GOOD / "labels", repository / "labels")
    ready = "/v2/models/labels/ready"
    wait_until(lambda: server.call("GET", ready).status == 200, 15, "the new model is ready")
    shutil.rmtree(repository / "labels")
    wait_until(lambda: server.call("GET", ready).status != 200, 15, "the removed model is gone")


# --- Models that do not load.


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    from server import Server

    log = tmp_path_factory.mktemp("broken") / "log"
    running = Server(
        log, [BROKEN], ["--exit-on-error=false", "--strict-readiness=true"]
    ).start("/v2/health/live")
    wait_until(
        lambda: all(row.get("state") != "LOADING" for row in index(running).values())
        and running.call("GET", "/v2/models/good/ready").status == 200,
        60,
        "every load has ended",
    )
    yield running
    running.stop()


@pytest.mark.parametrize(
    "model, reason",
    [
        ("corrupt", "model.pt"),
        ("truncated", "model.pt"),
        ("empty_file", "model.pt"),
        ("not_torchscript", "model.pt"),
        ("missing_file", "model.pt"),
        ("bad_syntax", "config.pbtxt"),
        ("bad_field", "max_bach_size"),
        ("bad_name", "another"),
        ("bad_backend", "tensorrt"),
        ("bad_count", "configuration expects 2 inputs, model provides 1"),
        ("bad_preferred", "dynamic batching preferred size must be <= max batch size for"),
        ("bad_reshape", "reshape"),
        ("bad_gpu", "bad_gpu has kind KIND_GPU"),
        ("bad_warmup", "zero input is not allowed"),
        ("no_versions", "version"),
    ],
)
def test_model_that_does_not_load_has_its_reason(broken, model, reason):
    rows = [row for (name, _), row in index(broken).items() if name == model]
    assert rows, f"{model} is not in the index"
    assert all(row["state"] == "UNAVAILABLE" for row in rows), rows
    assert reason in rows[0]["reason"]
    ready = broken.call("GET", f"/v2/models/{model}/ready")
    assert ready.status == 503
    reply = broken.infer(model, PLAIN_FP32)
    assert reply.status in (404, 503) and reply.error()


def test_good_model_is_served_despite_broken_ones(broken):
    assert broken.infer("good", PLAIN_FP32).outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8]


@pytest.mark.parametrize("name", adapters.NAMES)
def test_strict_readiness_with_a_broken_model(broken, name):
    client = adapters.connect(name, broken)
    assert client.call("is_server_live") is True
    assert client.call("is_server_ready") is False
    assert client.call("is_model_ready", "corrupt") is False
    assert client.call("is_model_ready", "good") is True
    client.close()


def test_readiness_that_is_not_strict(start):
    server = start([BROKEN], "--exit-on-error=false", "--strict-readiness=false")
    assert server.call("GET", "/v2/health/ready").json() == {"ready": True}


def test_broken_model_fails_the_start_by_default(tmp_path):
    from server import Server

    server = Server(tmp_path / "log", [BROKEN]).spawn()
    assert server.exit_code(60) == 1
    assert "corrupt" in server.log.read_text()


def test_loading_broken_models_by_request(start):
    server = start([BROKEN], "--model-control-mode=explicit")
    for model in ("corrupt", "not_torchscript", "bad_warmup"):
        reply = load(server, model)
        assert reply.status == 400
        assert f"load failed for model '{model}'" in reply.error()
    assert load(server, "good").status == 200
    assert server.infer("good", PLAIN_FP32).outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8]


# --- Contents of a repository path.


def test_path_to_one_model(start):
    server = start([DIGITS / "digits"])
    assert server.call("GET", "/v2/models").json() == {"models": ["digits"]}


@pytest.mark.parametrize("path", [DIGITS / "digits", DIGITS], ids=["model", "repository"])
def test_name_given_to_one_model(start, path):
    server = start([path], "--model-name=service")
    own = server.call("GET", "/v2/models").json()["models"]
    for name in ("service", "digits"):
        assert server.call("GET", f"/v2/models/{name}/ready").status == 200
        stats = server.call("GET", f"/v2/models/{name}/stats").json()["model_stats"]
        assert [entry["name"] for entry in stats] == own
    on = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"}
    changed = server.call("POST", "/v2/models/service/trace/setting", on).json()
    assert changed == server.call("GET", "/v2/models/digits/trace/setting").json()
    assert changed["trace_level"] == ["TIMESTAMPS"]


def test_path_to_a_bare_folder_and_to_a_file(start, tmp_path):
    bare = tmp_path / "triple"
    bare.mkdir()
    shutil.copy(GOOD / "noconfig" / "1" / "model.pt", bare / "model.pt")
    for path in (bare, bare / "model.pt"):
        server = start([path], "--model-name=triple")
        metadata = server.call("GET", "/v2/models/triple").json()
        name = metadata["inputs"][0]["name"]
        reply = server.infer("triple", request(tensor(name, "FP32", [1, 4], [1, 2, 3, 4])))
        assert reply.json()["outputs"][0]["data"] == [3, 6, 9, 12]


def test_repository_that_does_not_exist(tmp_path):
    from server import Server

    server = Server(tmp_path / "log", [tmp_path / "nowhere"]).spawn()
    assert server.exit_code(20) != 0
    assert "nowhere" in server.log.read_text()


def test_repository_at_a_url_of_another_scheme_is_refused_with_a_remedy(tmp_path):
    from server import Server

    server = Server(tmp_path / "log", ["ftp://bucket/models"]).spawn()
    assert server.exit_code(20) == 1
    assert "ftp://bucket/models: the scheme is not supported; use s3://" in server.log.read_text()


@pytest.mark.parametrize("files, flags, advice", [
    (["a.pt", "b.pt"], ["--model-name=m"], "give each model its own directory, such as a/model.pt"),
    (["net/net.pt"], [], "rename net/net.pt to 1/model.pt"),
    (["README.md", "pytorch_model.bin"], [], "put a file of torch.export.save there as model.pt2, of TorchScript as model.pt or of ONNX"),
    (["net/weights.safetensors"], [], "put a file of torch.export.save there as model.pt2, of TorchScript as model.pt or of ONNX"),
])
def test_folder_without_a_model_is_refused_with_a_remedy(tmp_path, files, flags, advice):
    from server import Server

    for file in files:
        path = tmp_path / "models" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    server = Server(tmp_path / "log", [tmp_path / "models"], flags).spawn()
    assert server.exit_code(20) == 1
    text = server.log.read_text()
    assert f"found {', '.join(sorted(files))}" in text
    assert advice in text


def test_repository_without_models_logs_a_warning(start, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert f"no model found in {empty}: " in start([empty]).log.read_text()
    # In explicit mode, clients load the models, so there is no warning.
    explicit = start([empty], "--model-control-mode=explicit")
    assert "no model found" not in explicit.log.read_text()
