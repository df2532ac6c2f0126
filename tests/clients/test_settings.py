"""Trace and log settings, changed at run time by the clients and by plain HTTP."""

import json

import pytest

from adapters import field
from server import GOOD
from wire import request, tensor


@pytest.fixture(autouse=True)
def restore(server):
    yield
    server.call("POST", "/v2/logging", {"log_verbose_level": 0, "log_info": True, "log_format": "default"})
    names = ("trace_level", "trace_rate", "trace_count", "log_frequency")
    server.call("POST", "/v2/models/add_sub/trace/setting", {name: None for name in names})


def value_of(answer, name: str):
    """Returns a value. HTTP clients return a dict of values, gRPC clients messages that contain them."""
    if isinstance(answer, dict):
        return answer[name]
    setting = answer.settings[name]
    if hasattr(setting, "value"):
        return list(setting.value) if len(setting.value) > 1 else setting.value[0]
    return getattr(setting, setting.WhichOneof("parameter_choice"))


def test_trace_settings_have_tritons_names(client):
    answer = client.call("get_trace_settings")
    for name in ("trace_level", "trace_rate", "trace_count", "log_frequency", "trace_mode"):
        value_of(answer, name)
    level = value_of(answer, "trace_level")
    assert level in (["OFF"], "OFF")
    assert value_of(answer, "trace_rate") == "1000"


def test_trace_settings_of_a_model_are_changed_and_cleared(client):
    settings = {"trace_rate": "7", "trace_level": ["TIMESTAMPS"]}
    answer = client.call("update_trace_settings", "add_sub", settings)
    assert value_of(answer, "trace_rate") == "7"
    assert value_of(client.call("get_trace_settings", "add_sub"), "trace_rate") == "7"
    assert value_of(client.call("get_trace_settings"), "trace_rate") == "1000"
    client.call("update_trace_settings", "add_sub", {"trace_rate": None, "trace_level": None})
    assert value_of(client.call("get_trace_settings", "add_sub"), "trace_rate") == "1000"


def test_log_settings(client):
    before = client.call("get_log_settings")
    assert value_of(before, "log_info") is True
    answer = client.call("update_log_settings", {"log_verbose_level": 1, "log_info": False})
    assert int(value_of(answer, "log_verbose_level")) == 1
    assert value_of(client.call("get_log_settings"), "log_info") is False


@pytest.mark.parametrize(
    "path, body, status",
    [
        ("/v2/logging", {"log_file": "/tmp/x"}, 501),
        ("/v2/trace/setting", {"trace_file": "/tmp/x"}, 501),
        ("/v2/logging", {"log_info": "yes"}, 400),
        ("/v2/logging", {"log_format": "odd"}, 400),
        ("/v2/logging", {"no_such": 1}, 400),
        ("/v2/trace/setting", {"trace_rate": "many"}, 400),
        ("/v2/trace/setting", {"trace_level": ["ODD"]}, 400),
        ("/v2/logging", b"{", 400),
        ("/v2/logging", b'{"log_info": true, "log_info": false}', 400),
        ("/v2/trace/setting", b'{"trace_rate": "1", "trace_rate": "2"}', 400),
        ("/v2/trace/setting", [], 400),
    ],
)
def test_settings_that_are_refused(server, path, body, status):
    reply = server.call("POST", path, body)
    assert reply.status == status
    assert reply.error()


def test_settings_of_an_unknown_model(server):
    reply = server.call("GET", "/v2/models/nope/trace/setting")
    assert reply.status in (400, 404) and "nope" in reply.error()


def test_log_format_is_echoed(server):
    reply = server.call("POST", "/v2/logging", {"log_format": "ISO8601"})
    assert reply.json()["log_format"] == "ISO8601"
    assert field(server.call("GET", "/v2/logging").json(), "log_format") == "ISO8601"


def test_traces_in_json_have_numbers_and_ids_of_a_bounded_length(start):
    options = ["--log-format=json", "--trace-config=level=TIMESTAMPS", "--trace-config=level=TENSORS", "--trace-config=rate=1"]
    traced = start([GOOD], *options)
    body = {"id": "x" * 100_000, **request(tensor("INPUT0", "FP32", [1, 1], [1]))}
    reply = traced.infer("identity_fp32", body)
    assert reply.status == 200 and len(reply.json()["id"]) == 100_000
    lines = [json.loads(line) for line in traced.log.read_text().splitlines()]
    traces = [line for line in lines if line["message"].startswith("trace: ")]
    assert [trace["message"] for trace in traces] == ["trace: stages", "trace: output"]
    assert all(trace["id"] == "x" * 100 + "…" for trace in traces)
    for name in ("queue_us", "input_us", "infer_us", "output_us"):
        assert isinstance(traces[0][name], int), traces[0]
    assert all(isinstance(line["ms"], int) for line in lines if "ms" in line)
