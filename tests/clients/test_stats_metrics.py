"""Statistics and metrics count requests, batches and failures."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import tritonclient.http as http_client

import wire
from adapters import field
from server import GOOD, wait_until
from test_batching import Change, number, together
from wire import request, tensor

STAGES = ["success", "fail", "queue", "compute_input", "compute_infer", "compute_output"]


def test_statistics_have_every_key_perf_analyzer_reads(server):
    server.infer("add_sub", wire.add_sub())
    row = server.statistics("add_sub")
    assert (row["name"], row["version"]) == ("add_sub", "1")
    for key in STAGES + ["cache_hit", "cache_miss"]:
        stage = row["inference_stats"][key]
        assert type(stage["count"]) is int and type(stage["ns"]) is int, key
    assert row["inference_stats"]["cache_hit"] == {"count": 0, "ns": 0}
    assert row["last_inference"] > 1_600_000_000_000
    for batch in row["batch_stats"]:
        assert set(batch) >= {"batch_size", "compute_input", "compute_infer", "compute_output"}


def test_counts_after_known_requests(server):
    change = Change(server, "echo_now")
    before = change.before["inference_stats"]
    for n in range(5):
        server.infer("echo_now", number(n))
    body = request(tensor("INPUT0", "INT32", [3, 1], [1, 2, 3]))
    server.infer("echo_now", body)
    after = server.statistics("echo_now")["inference_stats"]
    assert after["success"]["count"] - before["success"]["count"] == 6
    assert after["queue"]["count"] - before["queue"]["count"] == 6
    assert after["fail"] == before["fail"]
    assert (change.of("inference_count"), change.of("execution_count")) == (8, 6)
    assert change.batches() == {1: 5, 3: 1}


def test_service_time_shows_in_compute_infer(server):
    # The requests of other tests have completed once this one is answered.
    server.infer("slow", number(1))
    before = server.statistics("slow")["inference_stats"]
    server.infer("slow", number(1))
    after = server.statistics("slow")["inference_stats"]
    took = after["compute_infer"]["ns"] - before["compute_infer"]["ns"]
    assert 490_000_000 < took < 900_000_000
    assert after["success"]["ns"] - before["success"]["ns"] >= took


def test_failures_are_counted(server):
    before = server.statistics("fail")["inference_stats"]
    reasons = server.metric("nv_inference_request_failure", model="fail", reason="BACKEND")
    server.infer("fail", request(tensor("INPUT0", "FP32", [1, 4], [-1] * 4)))
    after = server.statistics("fail")["inference_stats"]
    assert after["fail"]["count"] - before["fail"]["count"] == 1
    assert after["success"]["count"] == before["success"]["count"]
    assert server.metric("nv_inference_request_failure", model="fail", reason="BACKEND") == reasons + 1


def test_failures_of_a_model_have_one_line_in_the_log(start):
    server = start([GOOD], "--model-control-mode=explicit", "--load-model=fail")
    for _ in range(5):
        reply = server.infer("fail", request(tensor("INPUT0", "FP32", [1, 4], [-1] * 4)))
        assert reply.status == 500, reply
    lines = [line for line in server.log.read_text().splitlines() if "a request failed" in line]
    assert len(lines) == 1, lines
    expected = ("WARN", 'model="fail"', "version=1", 'cause="internal"', "left_out=0")
    assert all(part in lines[0] for part in expected), lines


def test_statistics_of_all_of_one_and_of_a_version(server):
    every = server.call("GET", "/v2/models/stats").json()["model_stats"]
    assert {"add_sub", "digits"} <= {row["name"] for row in every}
    versions = server.call("GET", "/v2/models/two_versions/stats").json()["model_stats"]
    assert sorted(row["version"] for row in versions) == ["2", "3"]
    one = server.call("GET", "/v2/models/two_versions/versions/2/stats").json()["model_stats"]
    assert [row["version"] for row in one] == ["2"]


@pytest.mark.parametrize(
    "path, text",
    [
        ("/v2/models/nope/stats", "requested model 'nope' is not available"),
        ("/v2/models/nope/versions/1/stats", "requested model 'nope' is not available"),
        ("/v2/models/add_sub/versions/9/stats", "requested model version is not available for model 'add_sub'"),
    ],
)
def test_statistics_that_do_not_exist(server, path, text):
    reply = server.call("GET", path)
    assert reply.status == 404
    assert text in reply.error()


def test_statistics_by_the_clients(client):
    answer = client.call("get_inference_statistics", "digits")
    (row,) = field(answer, "model_stats")
    assert field(row, "name") == "digits"


def test_response_statistics(server):
    server.infer("add_sub", wire.add_sub())
    row = server.statistics("add_sub")["response_stats"]["0"]
    assert row["success"]["count"] >= 1
    assert {"compute_infer", "compute_output", "success", "fail", "empty_response", "cancel"} <= set(row)


def test_counters_move(server):
    names = {
        "nv_inference_request_success": 3,
        "nv_inference_count": 5,
        "nv_inference_exec_count": 3,
    }
    before = {name: server.metric(name, model="echo_now", version="1") for name in names}
    durations = [f"nv_inference_{stage}_duration_us" for stage in ("request", "queue", "compute_infer")]
    total = server.metric(durations[0], model="echo_now")
    server.infer("echo_now", number(1))
    server.infer("echo_now", number(1))
    server.infer("echo_now", request(tensor("INPUT0", "INT32", [3, 1], [1, 2, 3])))
    for name, gained in names.items():
        assert server.metric(name, model="echo_now", version="1") - before[name] == gained, name
    assert server.metric(durations[0], model="echo_now") > total


@pytest.mark.parametrize(
    "name, kind",
    [
        ("nv_inference_request_success", "counter"),
        ("nv_inference_request_failure", "counter"),
        ("nv_inference_count", "counter"),
        ("nv_inference_exec_count", "counter"),
        ("nv_inference_request_duration_us", "counter"),
        ("nv_inference_queue_duration_us", "counter"),
        ("nv_inference_compute_input_duration_us", "counter"),
        ("nv_inference_compute_infer_duration_us", "counter"),
        ("nv_inference_compute_output_duration_us", "counter"),
        ("nv_inference_pending_request_count", "gauge"),
        ("nv_model_load_duration_secs", "gauge"),
        ("nv_cpu_utilization", "gauge"),
        ("nv_cpu_memory_total_bytes", "gauge"),
        ("nv_cpu_memory_used_bytes", "gauge"),
    ],
)
def test_tritons_metric_names_and_types(server, name, kind):
    server.infer("add_sub", wire.add_sub())
    text = server.metrics_text()
    assert f"# TYPE {name} {kind}\n" in text
    assert f"# HELP {name} " in text
    assert any(line.startswith((name + "{", name + " ")) for line in text.splitlines())


def test_failure_reasons_exist_before_the_first_failure(server):
    text = server.metrics_text()
    for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER"):
        assert f'reason="{reason}"' in text


def test_weirs_own_histograms(server):
    server.infer("echo_now", number(1))
    text = server.metrics_text()
    for word in ("queue", "batch_size"):
        assert any(
            line.startswith("weir_runtime_") and word in line and "_bucket{" in line
            for line in text.splitlines()
        ), word


def test_refusals_are_counted(server):
    before = server.metric("nv_inference_request_failure", model="dyn_queue", reason="REJECTED")
    replies = together(server, "dyn_queue", [number(n) for n in range(24)])
    refused = sum(reply.status == 503 for reply in replies)
    assert refused
    after = server.metric("nv_inference_request_failure", model="dyn_queue", reason="REJECTED")
    assert after - before == refused


def test_pending_requests_show_while_they_wait(server):
    body = request(tensor("INPUT0", "INT32", [8, 1], [1] * 8))
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(server.infer, "slow", body) for _ in range(6)]
        pending = lambda: server.metric("nv_inference_pending_request_count", model="slow")  # noqa: E731
        wait_until(lambda: pending() >= 3, 5, "requests wait")
        assert all(future.result().status == 200 for future in futures)
        wait_until(lambda: pending() == 0, 5, "no request waits")


def test_requests_in_flight_show(server):
    count = lambda: server.metric("weir_runtime_requests_in_flight", protocol="http")  # noqa: E731
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(server.infer, "slow", number(n)) for n in range(4)]
        wait_until(lambda: count() == 4, 5, "four requests are in flight")
        assert all(future.result().status == 200 for future in futures)
    wait_until(lambda: count() == 0, 5, "no request is in flight")


def test_metrics_path_with_a_slash(server):
    assert wire.call(server.metrics_port, "GET", "/metrics/").status == 200
    assert wire.call(server.metrics_port, "GET", "/other").status == 404


def test_concurrent_scrapes(server):
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: server.metrics_text(), range(40)))
    assert all("nv_inference_count" in text for text in texts)


def test_http_library_statistics_of_a_version(server):
    with http_client.InferenceServerClient(server.http) as client:
        rows = client.get_inference_statistics("two_versions", "3")["model_stats"]
    assert [row["version"] for row in rows] == ["3"]
