"""Services with a transformer and an explainer: `weir up` runs each component, and they call the predictor through it."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

import gateway
import wire
from server import BINARY, GOOD, HERE, Server, wait_until

# Two model servers of the SDK start at once, and importing it takes a process five seconds.
READY_DEADLINE = 120.0
# The predictor ends its replica as soon as it gets no requests. The SDK's servers take longer to start.
ASLEEP = {"autoscaling.knative.dev/scale-to-zero-pod-retention-period": "0s", "autoscaling.knative.dev/window": "6s"}
ONES = [1.0] * 16
DOUBLED = [1 + 2 * value for value in range(16)]
PLAIN = [1 + value for value in range(16)]


def worker(*arguments: str) -> dict:
    command = [sys.executable, "-W", "ignore", str(HERE / "component_worker.py"), *arguments]
    return {"name": "kserve-container", "command": command}


def service(name: str, transformer: dict, explainer: dict | None = None, **predictor) -> dict:
    """Returns a service whose predictor is `weir-runtime` with the model add_sub under the service's name."""
    model = {"modelFormat": {"name": "pytorch"}, "storageUri": f"file://{GOOD / 'add_sub'}"}
    spec = {"predictor": {"model": model, "maxReplicas": 1, **predictor}, "transformer": transformer}
    if explainer:
        spec["explainer"] = explainer
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": spec,
    }


def of_sdk(protocol: str) -> dict:
    grpc = ["--grpc_port", "$(GRPC_PORT)"]
    return {"containers": [worker("kserve", "--predictor_protocol", protocol, *grpc)], "maxReplicas": 1}


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    folder = tmp_path_factory.mktemp("components")
    plain = {"containers": [worker("plain")], "minReplicas": 2, "maxReplicas": 2}
    explainer = {"containers": [worker("explain")], "maxReplicas": 1}
    services = [
        service("plain", plain, explainer, minReplicas=0, annotations=ASLEEP),
        *(service(f"sdk-{protocol}", of_sdk(protocol)) for protocol in ("v2", "grpc-v2")),
    ]
    files = []
    for one in services:
        files.append(folder / f"{one['metadata']['name']}.json")
        files[-1].write_text(json.dumps(one))
    running = Server(folder / "log", [])
    running.command = gateway.up(
        *files, port=running.http_port, admin_port=running.metrics_port, state=folder / "state"
    )
    running.command += ["--runtime", str(BINARY)]
    running.grpc = running.http
    running.spawn()
    wait_until(lambda: running.responds("/v2/health/live"), READY_DEADLINE, "the gateway responds")
    yield running
    running.stop()


def rows(platform) -> dict[str, dict]:
    services = wire.call(platform.metrics_port, "GET", "/status").json()["services"]
    return {row["name"]: row for row in services}


def until_ready(platform, name: str) -> None:
    wait_until(lambda: rows(platform)[name]["ready"] == "True", READY_DEADLINE, f"{name} is ready")


def until_serving(platform, revision: str) -> None:
    wait_until(lambda: ready_replicas(platform, revision) > 0, READY_DEADLINE, f"{revision} serves")


def ready_replicas(platform, revision: str) -> int:
    revisions = {row["name"]: row for one in rows(platform).values() for row in one["revisions"]}
    return revisions[revision]["ready"] if revision in revisions else 0


def v1(platform, name: str, verb: str = "predict", headers=None) -> dict:
    body = {"instances": [{"INPUT0": list(range(16)), "INPUT1": ONES}]}
    reply = platform.call("POST", f"/v1/models/{name}:{verb}", body, headers)
    assert reply.status == 200, reply.body
    return reply.json()


def sums(answer: dict) -> list:
    return answer["predictions"][0]["OUTPUT0"]


def inputs(kind) -> list:
    tensors = []
    for name, data in (("INPUT0", range(16)), ("INPUT1", ONES)):
        tensors.append(kind.InferInput(name, [1, 16], "FP32"))
        tensors[-1].set_data_from_numpy(np.array([list(data)], dtype=np.float32))
    return tensors


# The SDK answers a gRPC call with tensors of the kind that the predictor's protocol has, and tritonclient reads only raw
# ones.
@pytest.mark.parametrize("protocol, client", [("v2", "http"), ("grpc-v2", "http"), ("grpc-v2", "grpc")])
def test_the_sdks_transformer_calls_by_v2(platform, protocol, client):
    name = f"sdk-{protocol}"
    until_ready(platform, name)
    kind = {"http": http_client, "grpc": grpc_client}[client]
    with kind.InferenceServerClient(getattr(platform, client)) as connected:
        answer = connected.infer(name, inputs(kind))
    assert answer.as_numpy("OUTPUT0").reshape(-1).tolist() == DOUBLED


def test_a_transformers_call_wakes_its_predictor(platform):
    until_ready(platform, "plain")
    revision = "plain-predictor-00001"
    wait_until(lambda: ready_replicas(platform, revision) == 0, READY_DEADLINE, "the predictor sleeps")
    assert rows(platform)["plain"]["ready"] == "True"
    woken = platform.metric("weir_autoscaler_wake_seconds_count")
    answer = v1(platform, "plain")
    assert (answer["by"], sums(answer)) == ("plain", DOUBLED)
    # On a busy machine the replica may sleep again before its state is read, so the counter of wake-ups is compared.
    assert platform.metric("weir_autoscaler_wake_seconds_count") > woken


def test_the_predictor_is_reached_by_its_own_host(platform):
    for host in ("plain-predictor.default", "plain-predictor.default.svc.cluster.local"):
        answer = v1(platform, "plain", headers={"host": host})
        assert "by" not in answer and sums(answer) == PLAIN


def test_explanations_reach_the_explainer(platform):
    until_serving(platform, "plain-explainer-00001")
    answer = v1(platform, "plain", "explain")
    assert (answer["by"], sums(answer)) == ("explain", PLAIN)


@pytest.mark.parametrize("path", ["/serving/default/plain-predictor/v2", "/v1/models/plain-predictor:predict"])
def test_a_component_has_no_path_and_no_model(platform, path):
    assert platform.call("POST", path, {}).status == 404


def test_a_killed_transformer_fails_no_request(platform):
    revision = "plain-transformer-00001"
    wait_until(lambda: ready_replicas(platform, revision) == 2, READY_DEADLINE, "two transformers are ready")
    v1(platform, "plain")
    ended, answers = threading.Event(), []

    def send() -> None:
        while not ended.is_set():
            answers.append(sums(v1(platform, "plain")) == DOUBLED)

    senders = [threading.Thread(target=send) for _ in range(4)]
    for sender in senders:
        sender.start()
    wait_until(lambda: len(answers) > 20, READY_DEADLINE, "requests are answered")
    os.kill(transformers(platform)[0], signal.SIGKILL)
    count = len(answers)
    wait_until(lambda: len(answers) > count + 50, READY_DEADLINE, "requests are answered after the end of a replica")
    ended.set()
    for sender in senders:
        sender.join()
    assert all(answers)


def transformers(platform) -> list[int]:
    """Returns the processes of the service plain's transformer."""
    below = psutil.Process(platform.process.pid).children(recursive=True)
    is_one = lambda words: words[-1:] and "component_worker.py" in " ".join(words) and "plain" in words  # noqa: E731
    return [process.pid for process in below if Path(process.exe()).name != "sh" and is_one(process.cmdline())]
