"""Models that never return: the server logs them, gives them up, and is restarted."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import gateway
import wire
from server import BINARY, ENDLESS, Server, wait_until
from stopwatch import Stopwatch
from wire import request, tensor

# Input value for which the model never returns.
POISON = 1e6
# Input value for which the model takes some time.
SLOW = 1e5
LIMIT_S = 2
# Time for the limit to pass and to be noticed, on a busy machine.
NOTICED_S = 30.0


def row(value: float) -> dict:
    return request(tensor("INPUT0", "FP32", [1, 1], [value]))


def answer(reply: wire.Reply) -> float:
    return reply.outputs()["OUTPUT0"]["data"][0]


def is_running(server) -> bool:
    return server.metric("weir_runtime_running_batch_seconds", model="endless") > 0.1


def is_live(server) -> bool:
    return server.call("GET", "/v2/health/live").status == 200


@pytest.fixture
def limited(start):
    return start([ENDLESS], f"--max-batch-seconds={LIMIT_S}", "--exit-timeout-secs=3")


def test_endless_batch_is_given_up(limited):
    assert answer(limited.infer("endless", row(3))) == 6
    pool = ThreadPoolExecutor(2)
    pool.submit(limited.infer, "endless", row(POISON))
    wait_until(lambda: is_running(limited), NOTICED_S, "the batch runs")
    behind = pool.submit(limited.infer, "endless", row(1)).result()
    assert (behind.status, behind.headers["weir-refused"]) == (503, "2"), behind
    later = limited.infer("endless", row(1))
    assert (later.status, later.headers["weir-refused"]) == (503, "2"), later
    for path in ("/v2/health/live", "/v2/health/ready"):
        reply = limited.call("GET", path)
        assert reply.status == 503 and "a batch of model 'endless' version 1 has run for" in reply.error()
    assert wire.call(limited.metrics_port, "GET", "/health").body == b"stuck\n"
    assert limited.metric("weir_runtime_running_batch_seconds", model="endless") > LIMIT_S
    assert limited.metric("weir_runtime_batch_limit_seconds", model="endless") == LIMIT_S
    warnings = [line for line in limited.log.read_text().splitlines() if "a batch has run for longer" in line]
    assert len(warnings) == 1 and "WARN" in warnings[0] and "endless" in warnings[0] and "rows=1" in warnings[0]
    stopwatch = Stopwatch()
    limited.terminate()
    limited.exit_code()
    assert stopwatch.seconds() < 13


def test_shutdown_does_not_wait_for_an_endless_batch_beyond_its_timeout(start):
    server = start([ENDLESS], "--exit-timeout-secs=3")
    with ThreadPoolExecutor(1) as pool:
        inside = pool.submit(server.infer, "endless", row(POISON))
        wait_until(lambda: is_running(server), NOTICED_S, "the batch runs")
        stopwatch = Stopwatch()
        server.terminate()
        assert server.exit_code() == 1
        assert stopwatch.seconds() < 13
        assert inside.exception() is not None or inside.result().status != 200


def test_requests_in_an_endless_batch_are_answered(start):
    # Batches as slow as these run on the instance's own thread, provided that there are enough of them to outweigh the
    # short ones at the start.
    server = start([ENDLESS], f"--max-batch-seconds={LIMIT_S}", "--exit-timeout-secs=40")
    for _ in range(50):
        assert answer(server.infer("endless", row(SLOW))) == 2 * SLOW
    reply = server.infer("endless", row(POISON))
    assert reply.status == 500 and "--max-batch-seconds" in reply.error(), reply
    assert "weir-refused" not in reply.headers
    # No client waits for the batch any more, so the process ends at once.
    stopwatch = Stopwatch()
    server.stop()
    assert stopwatch.seconds() < 20


def is_noticed(server) -> bool:
    """Returns true if the process has ended, ends during the call, or reports that it is not live."""
    try:
        return server.process.poll() is not None or not is_live(server)
    except OSError:
        return True


def test_process_exits_if_the_batch_blocks_the_serving_thread(start):
    # With one thread, batches of less than two milliseconds run on that thread.
    server = start([ENDLESS], f"--max-batch-seconds={LIMIT_S}", "--exit-timeout-secs=60", "--http-thread-count=1")
    for _ in range(300):
        assert answer(server.infer("endless", row(3))) == 6
    pool = ThreadPoolExecutor(1)
    inside = pool.submit(server.infer, "endless", row(POISON))
    stopwatch = Stopwatch()
    # The process ends by SIGABRT at the latest check after the limit, or by a restart signal if the batch ran on the
    # instance's own thread.
    wait_until(lambda: is_noticed(server), NOTICED_S, "the server notices the stuck batch")
    server.terminate()
    server.exit_code()
    assert stopwatch.seconds() < NOTICED_S
    assert inside.exception() is not None or inside.result().status == 500
    assert "a batch has run for longer" in server.log.read_text()


def test_two_instances(start, tmp_path):
    repository = tmp_path / "repository"
    model = repository / "endless"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.pt").write_bytes((ENDLESS / "endless" / "1" / "model.pt").read_bytes())
    config = (ENDLESS / "endless" / "config.pbtxt").read_text()
    (model / "config.pbtxt").write_text(config + "instance_group [ { count: 2 kind: KIND_CPU } ]\n")
    server = start([repository], f"--max-batch-seconds={LIMIT_S}", "--exit-timeout-secs=3")
    pool = ThreadPoolExecutor(1)
    pool.submit(server.infer, "endless", row(POISON))
    wait_until(lambda: not is_live(server), NOTICED_S, "the server is not live")
    assert server.call("GET", "/v2/health/live").status == 503
    for value in range(20):
        assert answer(server.infer("endless", row(value))) == 2 * value
    server.terminate()
    server.exit_code()


MANIFEST = f"""
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: endless
  annotations: {{weir.dev/max-batch-time: {LIMIT_S}s}}
spec:
  predictor:
    minReplicas: 2
    maxReplicas: 2
    model:
      modelFormat: {{name: pytorch}}
      storageUri: file://{ENDLESS}
      livenessProbe: {{httpGet: {{path: /v2/health/live, port: 8080}}, periodSeconds: 1, failureThreshold: 2}}
"""


@pytest.fixture
def platform(tmp_path):
    """Starts `weir up` with two replicas of the model."""
    manifest = tmp_path / "endless.yaml"
    manifest.write_text(MANIFEST)
    running = Server(tmp_path / "log", [])
    running.command = gateway.up(
        manifest, port=running.http_port, admin_port=running.metrics_port, state=tmp_path / "state"
    )
    running.command += ["--runtime", str(BINARY)]
    running.spawn()
    wait_until(lambda: running.responds("/v2/health/live") and replicas(running) == 2, 60.0, "both replicas are ready")
    yield running
    running.stop()


def status(platform) -> str:
    return wire.call(platform.metrics_port, "GET", "/status").body.decode()


def replicas(platform) -> int:
    revisions = [revision for service in json.loads(status(platform))["services"] for revision in service["revisions"]]
    return sum(revision["ready"] for revision in revisions)


def test_platform_restarts_the_replica_and_serves_the_others(platform):
    ended = threading.Event()

    def ask(_: int) -> list:
        failed = []
        while not ended.is_set():
            value = SLOW
            reply = platform.infer("endless", row(value), timeout=120)
            if reply.status != 200 or answer(reply) != 2 * value:
                failed.append(reply)
        return failed

    with ThreadPoolExecutor(9) as pool:
        asking = [pool.submit(ask, thread) for thread in range(8)]
        try:
            poisoned = platform.infer("endless", row(POISON), timeout=120)
            wait_until(lambda: "was restarted once" in status(platform), 60.0, "the replica is restarted")
            wait_until(lambda: replicas(platform) == 2, 60.0, "both replicas are ready again")
        finally:
            ended.set()
        failed = [reply for future in asking for reply in future.result()]
    # The request is not retried on the other replica, which it would block as well. The replica answers it, or ends first.
    assert poisoned.status == 500, poisoned
    assert "--max-batch-seconds" in poisoned.error() or "may be the cause" in poisoned.error(), poisoned
    assert failed == []
    log = platform.log.read_text()
    assert "--max-batch-seconds" in log, log[-4000:]
    assert "a batch of model 'endless' version 1 has run for" in log, log[-4000:]
    # The replica was restarted by its liveness probe; or it ended by itself, if the batch held a thread that serves
    # connections.
    assert "replica hangs" in log or "exiting" in log, log[-4000:]
