"""SIGTERM: accepted requests are answered, later ones are refused, and the exit code is 0."""

import http.client
import json
import shutil
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tritonclient.grpc import service_pb2_grpc

from server import BROKEN, DIGITS, GOOD, Server, wait_until
from stopwatch import Stopwatch
from test_batching import number
from test_grpc import message
from wire import request, tensor

EIGHT = request(tensor("INPUT0", "INT32", [8, 1], [7] * 8))


@pytest.fixture
def repository(tmp_path):
    """Creates a repository of two models only, so that the server starts fast."""
    for model in ("slow", "echo_now"):
        shutil.copytree(GOOD / model, tmp_path / "repository" / model)
    return tmp_path / "repository"


@pytest.fixture
def fresh(tmp_path, repository):
    """Starts a server that the test itself stops."""
    running = Server(tmp_path / "log", [repository]).start()
    yield running
    running.kill()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_idle_server_exits_at_once_with_0(fresh, stop):
    stopwatch = Stopwatch()
    fresh.process.send_signal(stop)
    assert fresh.exit_code() == 0
    assert stopwatch.seconds() < 5


def test_idle_connections_do_not_delay_shutdown(fresh):
    connections = [socket.create_connection(("127.0.0.1", fresh.http_port)) for _ in range(5)]
    connections += [socket.create_connection(("127.0.0.1", fresh.grpc_port)) for _ in range(5)]
    kept = http.client.HTTPConnection("127.0.0.1", fresh.http_port)
    kept.request("GET", "/v2")
    kept.getresponse().read()
    stopwatch = Stopwatch()
    fresh.terminate()
    assert fresh.exit_code() == 0
    assert stopwatch.seconds() < 15
    for connection in connections:
        connection.close()


def until_in_flight(server, protocol: str, count: int) -> None:
    in_flight = lambda: server.metric("weir_runtime_requests_in_flight", protocol=protocol)  # noqa: E731
    wait_until(lambda: in_flight() == count, 10, f"{count} requests have begun")


def test_a_request_that_waits_for_a_batch_is_answered_at_once(tmp_path, repository):
    """The queue delay of the model is longer than the exit timeout, and no further request can join the batch."""
    with (repository / "slow" / "config.pbtxt").open("a") as config:
        config.write("dynamic_batching { max_queue_delay_microseconds: 600000000 }\n")
    server = Server(tmp_path / "log", [repository]).start()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(server.infer, "slow", request(tensor("INPUT0", "INT32", [1, 1], [7])))
        server.wait_for_pending("slow", 1)
        server.terminate()
        assert waiting.result().outputs()["OUTPUT0"]["data"] == [7]
    assert server.exit_code() == 0


def test_eight_in_flight_are_answered(fresh):
    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(fresh.infer, "slow", EIGHT) for _ in range(8)]
        until_in_flight(fresh, "http", 8)
        fresh.terminate()
        answers = [future.result() for future in running]
    assert [a.outputs()["OUTPUT0"]["data"] for a in answers] == [[7] * 8] * 8
    assert fresh.exit_code() == 0


def test_grpc_in_flight_is_answered(fresh):
    body = message("slow", ("INPUT0", "INT32", [8, 1], {"int_contents": [5] * 8}))
    with grpc.insecure_channel(fresh.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        running = [stub.ModelInfer.future(body) for _ in range(4)]
        until_in_flight(fresh, "grpc", 4)
        fresh.terminate()
        answers = [call.result() for call in running]
    assert [a.raw_output_contents[0] for a in answers] == [b"\5\0\0\0" * 8] * 4
    assert fresh.exit_code() == 0


def test_an_upload_in_progress_is_answered(fresh):
    body = json.dumps(number(3)).encode()
    head = f"POST /v2/models/echo_now/infer HTTP/1.1\r\nHost: models.tests\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", fresh.http_port), timeout=20) as connection:
        connection.sendall(head.encode() + body[:20])
        until_in_flight(fresh, "http", 1)
        fresh.terminate()
        wait_until(lambda: connect(fresh.http_port) == "refused", 5, "the port is closed")
        connection.sendall(body[20:])
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 ") and b'"data":[3]' in answer
    assert fresh.exit_code() == 0


def test_a_stalled_upload_does_not_delay_shutdown(fresh):
    with socket.create_connection(("127.0.0.1", fresh.http_port), timeout=20) as connection:
        connection.sendall(b"POST /v2/models/echo_now/infer HTTP/1.1\r\nHost: models.tests\r\nContent-Length: 99\r\n\r\n{")
        until_in_flight(fresh, "http", 1)
        stopwatch = Stopwatch()
        fresh.terminate()
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert fresh.exit_code() == 0
    assert stopwatch.seconds() < 15


def connect(port: int) -> str:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return "accepted"
    except ConnectionRefusedError:
        return "refused"


def test_grpc_stream_in_flight_is_answered(fresh):
    body = message("slow", ("INPUT0", "INT32", [8, 1], {"int_contents": [5] * 8}))
    with grpc.insecure_channel(fresh.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answers = stub.ModelStreamInfer(iter([body] * 4))
        fresh.wait_for_pending("slow", 3)
        fresh.terminate()
        got = [answer.infer_response.raw_output_contents[0] for answer in answers]
    assert got == [b"\5\0\0\0" * 8] * 4
    assert fresh.exit_code() == 0


def test_grpc_stream_in_use_ends_between_two_messages(repository, tmp_path):
    server = Server(tmp_path / "log", [repository], ["--exit-timeout-secs=10"]).start()
    body = message("echo_now", ("INPUT0", "INT32", [1, 1], {"int_contents": [5]}))
    sent = []

    def messages():
        while server.process.poll() is None:
            sent.append(body)
            yield body
            time.sleep(0.05)

    with grpc.insecure_channel(server.grpc) as channel:
        answers = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(messages())
        got = [next(answers)]
        stopwatch = Stopwatch()
        server.terminate()
        with pytest.raises(grpc.RpcError) as ended:
            got.extend(answers)
    assert (ended.value.code(), ended.value.details()) == (grpc.StatusCode.UNAVAILABLE, "Server exiting")
    assert not any(answer.error_message for answer in got)
    # The last messages were on their way when the stream ended.
    assert len(got) > len(sent) / 2
    assert server.exit_code() == 0
    assert 7.5 < stopwatch.seconds() < 10


def test_second_signal_exits_at_once(fresh):
    with ThreadPoolExecutor(12) as pool:
        for _ in range(12):
            pool.submit(quietly, fresh)
        fresh.wait_for_pending("slow", 8)
        fresh.terminate()
        wait_until(lambda: "a second signal" in fresh.log.read_text(), 5, "the first signal is handled")
        stopwatch = Stopwatch()
        # Signals within half a second of the first one count as the same signal.
        while fresh.process.poll() is None and stopwatch.seconds() < 5:
            fresh.terminate()
            time.sleep(0.05)
        assert fresh.exit_code() == 1
    assert 0.4 < stopwatch.seconds() < 2


def test_signals_to_a_process_and_to_its_group_count_as_one(tmp_path, repository):
    """`timeout` sends SIGTERM to its child, and then to the process group of the child."""
    server = Server(tmp_path / "log", [repository])
    server.command = ["timeout", "600", *server.command]
    server.start()
    with ThreadPoolExecutor(12) as pool:
        answers = [pool.submit(server.infer, "slow", EIGHT) for _ in range(12)]
        server.wait_for_pending("slow", 8)
        server.terminate()
        assert [answer.result().status for answer in answers] == [200] * 12
    server.exit_code()
    assert "second signal: the process ends" not in server.log.read_text()


def test_a_batch_past_the_exit_timeout_ends_with_the_process(tmp_path, repository):
    """The batch runs in libtorch until the process ends, without crashing and without an error from libtorch."""
    server = Server(tmp_path / "log", [repository], ["--exit-timeout-secs", "0"]).start()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(quietly, server)
        server.wait_for_pending("slow", 4)
        server.terminate()
        assert server.exit_code() == 1
    assert "exiting with unanswered requests" in server.log.read_text()


@pytest.mark.parametrize("repository, reason", [("missing", "No such file"), ("broken", "did not load")])
def test_nothing_to_serve(tmp_path, repository, reason):
    path = BROKEN if repository == "broken" else tmp_path / "missing"
    server = Server(tmp_path / "log", [path]).spawn()
    assert server.exit_code(60) == 1
    text = server.log.read_text()
    assert reason in text and (repository == "broken" or str(path) in text)


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine may have a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_missing_gpu(tmp_path, device):
    server = Server(tmp_path / "log", [DIGITS])
    server.command[server.command.index("--device") + 1] = device
    assert server.spawn().exit_code(30) == 1
    assert "--device asks for CUDA, but there is no driver" in server.log.read_text()


def test_under_load_every_accepted_request_is_answered(fresh):
    """Clients send requests while SIGTERM arrives. Each gets a response, or a refusal before the server accepted the
    body; a connection must never end within an accepted request."""
    outcomes, lock = [], threading.Lock()

    def send_requests(n: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", fresh.http_port, timeout=20)
        for i in range(10_000):
            outcome = ask(connection, n * 10_000 + i)
            with lock:
                outcomes.append(outcome)
            if outcome in ("refused", "closed while idle"):
                return

    with ThreadPoolExecutor(16) as pool:
        workers = [pool.submit(send_requests, n) for n in range(16)]
        wait_until(lambda: len(outcomes) > 500, 30, "load")
        fresh.terminate()
        for worker in workers:
            worker.result()
    assert fresh.exit_code() == 0
    assert outcomes.count("answered") > 500
    assert set(outcomes) <= {"answered", "refused", "closed while idle"}, set(outcomes)


def ask(connection: http.client.HTTPConnection, n: int) -> str:
    body = json.dumps(number(n))
    try:
        connection.request("POST", "/v2/models/echo_now/infer", body)
    except (ConnectionRefusedError, BrokenPipeError, ConnectionResetError):
        return "refused"
    try:
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (http.client.RemoteDisconnected, ConnectionResetError):
        # The server may close a keep-alive connection between two requests. HTTP lets a client retry then, because no
        # byte of a response arrived.
        return "closed while idle"
    if response.status == 503:
        return "refused"
    return "answered" if answer["outputs"][0]["data"] == [n] else f"wrong {answer}"


def test_new_connections_are_refused_while_draining(fresh):
    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(fresh.infer, "slow", EIGHT) for _ in range(6)]
        fresh.wait_for_pending("slow", 4)
        fresh.terminate()

        def refused() -> bool:
            try:
                return fresh.infer("echo_now", number(1), timeout=2).status == 503
            except OSError:
                return True

        wait_until(refused, 5, "new requests are refused")
        assert all(future.result().status == 200 for future in running)
    assert fresh.exit_code() == 0


def test_readiness_fails_before_requests_are_refused(tmp_path, repository):
    """With a delay before requests are refused, a load balancer sees 503 while requests are still served."""
    server = Server(tmp_path / "log", [repository], ["--drain-delay-secs=2"]).start()
    server.terminate()
    wait_until(lambda: server.call("GET", "/v2/health/ready").status == 503, 2, "not ready")
    assert server.infer("echo_now", number(3)).outputs()["OUTPUT0"]["data"] == [3]
    assert server.exit_code() == 0


def test_kept_connections_end_with_an_answer_before_the_port_closes(tmp_path, repository):
    """A connection that is closed while a request is on its way loses the request, and clients do not send a POST
    again."""
    server = Server(tmp_path / "log", [repository], ["--drain-delay-secs=3"]).start()
    kept = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=20)
    assert headers_of_an_answer(kept).get("connection") is None
    server.terminate()
    wait_until(lambda: server.call("GET", "/v2/health/ready").status == 503, 2, "not ready")
    assert headers_of_an_answer(kept)["connection"] == "close"
    assert server.exit_code() == 0


def headers_of_an_answer(connection: http.client.HTTPConnection) -> dict:
    connection.request("POST", "/v2/models/echo_now/infer", json.dumps(number(3)))
    response = connection.getresponse()
    assert json.loads(response.read())["outputs"][0]["data"] == [3]
    return {name.lower(): value for name, value in response.getheaders()}


def test_exit_timeout_shorter_than_the_work(tmp_path, repository):
    server = Server(tmp_path / "log", [repository], ["--exit-timeout-secs=1"]).start()
    with ThreadPoolExecutor(12) as pool:
        for _ in range(12):
            pool.submit(quietly, server)
        server.wait_for_pending("slow", 10)
        stopwatch = Stopwatch()
        server.terminate()
        code = server.exit_code()
    assert stopwatch.seconds() < 4
    # The exit code reports that requests were aborted.
    assert code == 1


def quietly(server) -> None:
    try:
        server.infer("slow", EIGHT)
    except (OSError, http.client.HTTPException):
        pass


@pytest.mark.parametrize("port", ["http", "grpc", "metrics"])
def test_port_taken(tmp_path, port):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number_taken = taken.getsockname()[1]
        server = Server(tmp_path / "log", [DIGITS])
        flag = server.command.index(f"--{port}-port")
        server.command[flag + 1] = str(number_taken)
        assert server.spawn().exit_code(30) == 3
    assert str(number_taken) in server.log.read_text()


@pytest.mark.parametrize("options", [["--no-such-flag"], ["--http-port=many"], ["--model-control-mode=odd"]])
def test_wrong_usage(tmp_path, options):
    server = Server(tmp_path / "log", [DIGITS], options).spawn()
    assert server.exit_code(10) == 2
    assert options[0].split("=")[0] in server.log.read_text()
