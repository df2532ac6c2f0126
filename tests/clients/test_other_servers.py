"""Servers of others as containers of `weir up`: KServe's Python server, and an ASGI server with WebSockets."""

import shutil
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
import websocket
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

import gateway
import wire
from server import HERE, Server, wait_until

DEADLINE = 60.0
# The service by its path, for clients that set the host themselves.
PATH = f"/serving/{gateway.NAMESPACE}/{gateway.NAME}"


@contextmanager
def platform(folder, *command):
    """Runs `weir up` with one service at zero, whose container is this Python program."""
    file, state = folder / "service.yaml", folder / "state"
    fields = {"minReplicas": 0, "containerConcurrency": 8}
    file.write_text(gateway.manifest([sys.executable, "-W", "ignore", str(HERE / command[0]), *command[1:]], **fields))
    running = Server(folder / "log", [])
    running.command = gateway.up(file, port=running.http_port, admin_port=running.metrics_port, state=state)
    running.spawn()
    wait_until(lambda: running.responds("/v2/health/ready"), DEADLINE, "the service has a route")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def kserve(tmp_path_factory):
    with platform(tmp_path_factory.mktemp("kserve"), "kserve_server.py", "models", "$(PORT)", "$(GRPC_PORT)") as running:
        yield running


@pytest.fixture(scope="module")
def asgi(tmp_path_factory):
    with platform(tmp_path_factory.mktemp("asgi"), "asgi_server.py", "$(PORT)") as running:
        yield running


def call(running, method, path, body=None) -> wire.Reply:
    """Calls the service by its host."""
    headers = {"content-type": "application/json"} if body is not None else None
    return wire.call(running.http_port, method, path, body, headers, timeout=DEADLINE)


def replicas(running, program: str) -> list[psutil.Process]:
    return [p for p in psutil.Process(running.process.pid).children(recursive=True) if program in " ".join(p.cmdline())]


def test_kserves_server_answers_v1_and_v2(kserve):
    assert call(kserve, "POST", "/v1/models/models:predict", {"instances": [1, 2]}).json() == {"predictions": [2, 4]}
    row = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1.5, 2]}
    reply = call(kserve, "POST", "/v2/models/models/infer", {"id": "a", "inputs": [row]})
    assert (reply.outputs()["doubled"]["data"], reply.headers["weir-revision"][:6]) == ([3.0, 4.0], "models")
    assert call(kserve, "GET", "/v2/health/ready").status == 200
    assert call(kserve, "GET", "/v2/models/models").json()["name"] == "models"
    assert call(kserve, "POST", "/v1/models/none:predict", {"instances": []}).status == 404
    assert b"request_predict_seconds" in call(kserve, "GET", "/metrics").body


def test_a_websocket_wakes_a_service_and_passes_messages(asgi):
    with connect(f"ws://127.0.0.1:{asgi.http_port}{PATH}/ws", subprotocols=["chat"], open_timeout=DEADLINE) as client:
        assert client.subprotocol == "chat"
        assert client.response.headers["weir-revision"].startswith("models")
        for message in ["Grüße", b"\0\xff" * 70_000, ""]:
            client.send(message)
            assert client.recv(DEADLINE) == message
        client.ping().wait(DEADLINE)
        client.send("close")
        with pytest.raises(ConnectionClosedError) as closed:
            client.recv(DEADLINE)
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4001, "asked to")


def test_a_websocket_is_a_request_until_it_closes(asgi):
    client = websocket.create_connection(f"ws://127.0.0.1:{asgi.http_port}{PATH}/ws", timeout=DEADLINE)
    wait_until(lambda: asgi.metric("weir_revision_in_flight") == 1, DEADLINE, "the connection is in flight")
    client.send("still here")
    assert client.recv() == "still here"
    client.close()
    wait_until(lambda: asgi.metric("weir_revision_in_flight") == 0, DEADLINE, "nothing is in flight")


@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no chromium; Debian's package of this name has one")
def test_a_browsers_page_uses_websockets_and_long_polls(asgi, tmp_path):
    address = f"http://127.0.0.1:{asgi.http_port}{PATH}/page"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    page = subprocess.run(["chromium", *options, address], capture_output=True, text=True, timeout=DEADLINE, check=True)
    written = page.stdout.partition("<pre>")[2].partition("</pre>")[0].split("\n")
    assert written == ["open chat", "message Grüße", "message 70000", "close 4001 asked to", "poll 7", ""], page.stderr[-2000:]


def test_pages_of_other_sites_open_no_websocket(asgi):
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{asgi.http_port}{PATH}/ws", origin="http://evil.example", open_timeout=DEADLINE)
    assert refused.value.response.status_code == 403


def test_long_polls_and_events_pass(asgi):
    events = b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
    for path in ("/poll", "/events"):
        reply = call(asgi, "GET", path)
        assert (reply.status, reply.body) == (200, events)
    assert asgi.metric("weir_revision_first_byte_seconds_count") >= 2


def test_a_websocket_ends_with_its_server(asgi):
    with connect(f"ws://127.0.0.1:{asgi.http_port}{PATH}/ws", open_timeout=DEADLINE) as client:
        client.send("once")
        assert client.recv(DEADLINE) == "once"
        replicas(asgi, "asgi_server.py")[0].kill()
        with pytest.raises(ConnectionClosedError):
            client.recv(DEADLINE)
    assert call(asgi, "GET", "/events").status == 200
