"""Tests model servers of others, those of tests/servers/cases.py, in pods of the one-node cluster: over each protocol that
they speak, and while their processes are killed, their pods are deleted, replaced, stopped and woken. No request may
fail meanwhile. To be run as root in the cluster's network, after weir-up.sh and `servers/load.sh NAME...`:

    target/cluster/exec .venv/bin/python tests/kubernetes/servers.py NAME...
"""

import json
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton

from weir import (
    Failure, condition, expect, kill, kubectl, left, pods, post, ready_pods, restarts, run, step, unharmed, wait_until,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "servers"))
import cases  # noqa: E402 - found by the line above

# Model of all cases, by which OpenAI's clients find the service.
NAME = "models"
HOST = f"{NAME}.default"
PORTS = {"PORT": 8080, "GRPC_PORT": 9000, "METRICS_PORT": 8082}
RESOURCES = {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "3Gi"}}
# The clients need less than half of one pod's throughput.
CLIENTS = 2


class Server:
    """A server of `cases`, as the service `models`."""

    def __init__(self, case):
        self.case = case
        self.command = case.command(cases.models_in_image(case))

    def container(self, revision):
        # Other pods cannot reach a server that listens at 127.0.0.1.
        command = ["0.0.0.0" if word == "127.0.0.1" else word for word in self.command]
        env = {**PORTS, "HOME": "/tmp", **self.case.env(cases.models_in_image(self.case)), "REVISION": revision}
        ports = [{"name": "http1", "containerPort": PORTS["PORT"]}]
        if self.case.grpc_model:
            ports.append({"name": "h2c", "containerPort": PORTS["GRPC_PORT"]})
        container = {
            "name": "kserve-container", "image": f"weir.dev/server-{self.case.name}:test", "imagePullPolicy": "Never",
            "command": command, "env": [{"name": name, "value": str(value)} for name, value in env.items()], "ports": ports,
            # Some servers write files to the folder in which they are started.
            "resources": RESOURCES, "workingDir": "/tmp",
        }
        return {**container, **self.probe()}

    def probe(self):
        """Returns the case's readiness probe with its port, which Kubernetes requires."""
        probe = self.case.container.get("readinessProbe")
        return {"readinessProbe": {**probe, "httpGet": {**probe["httpGet"], "port": PORTS["PORT"]}}} if probe else {}

    def apply(self, revision="1", annotations={}, **fields):
        annotations = {**cases.PATIENCE, "weir.dev/rollback-window": "1s", **annotations}
        if self.case.metric:
            annotations["prometheus.io/port"] = str(PORTS[self.case.metrics_port])
        predictor = {"minReplicas": 1, "maxReplicas": 2, "containers": [self.container(revision)], **fields}
        kind = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
        metadata = {"name": NAME, "namespace": "default", "annotations": annotations}
        kubectl("apply", "-f", "-", stdin=json.dumps({**kind, "metadata": metadata, "spec": {"predictor": predictor}}))

    def until_ready(self, count):
        wait_until(f"{count} pods", self.case.start, lambda: ready_pods(NAME) == count == len(pods(NAME)))
        wait_until("Ready", 60, lambda: condition(NAME) == "True")

    def unharmed(self, name):
        return unharmed(self.step(name), NAME, url(self.case.infer), body(self.case.infer), self.case.infer.check, clients=CLIENTS)

    def step(self, name):
        return f"{self.case.name}: {name}"


def url(call):
    return f"http://{HOST}{call.path}"


def body(call):
    return json.dumps(call.body).encode()


def send(call, timeout=60):
    """Sends a request, checks its answer, and returns the revision that answered."""
    revision, answer = post(url(call), body(call), timeout=timeout)
    call.check(answer)
    return revision


def it_becomes_ready_and_answers(server):
    with step(server.step("an InferenceService, until it is ready")):
        server.apply()
        server.until_ready(1)
    with step(server.step("requests over each protocol")):
        expect("the revision", f"{NAME}-predictor-00001", send(server.case.infer))
        if server.case.grpc_model:
            over_grpc(server.case)
        if server.case.stream:
            in_pieces(server.case.stream)
        if server.case.metric:
            expect("its own metrics", True, server.case.metric in own_metrics(server.case))


def over_grpc(case):
    client, inputs = triton.InferenceServerClient(f"{HOST}:8081"), []
    for row in case.infer.body["inputs"]:
        one = triton.InferInput(row["name"], row["shape"], row["datatype"])
        kind = {"INT32": np.int32, "FP64": np.float64}[row["datatype"]]
        one.set_data_from_numpy(np.array(row["data"], kind).reshape(row["shape"]))
        inputs.append(one)
    answer = client.infer(case.grpc_model, inputs, client_timeout=60)
    rows = [{"name": row.name, "data": answer.as_numpy(row.name).ravel().tolist()} for row in answer.get_response().outputs]
    case.infer.check({"outputs": rows})
    client.close()


def in_pieces(call):
    request = urllib.request.Request(url(call), body(call), {"Content-Type": "application/json"})
    times = []
    with urllib.request.urlopen(request, timeout=60) as response:
        while response.read1(65536):
            times.append(time.monotonic())
    if len(times) < 4 or times[-1] == times[0]:
        raise Failure(f"the stream arrived in {len(times)} pieces")


def own_metrics(case):
    address = kubectl("get", "pod", pods(NAME)[0], "-o", "jsonpath={.status.podIP}")
    with urllib.request.urlopen(f"http://{address}:{PORTS[case.metrics_port]}/metrics", timeout=30) as page:
        return page.read().decode()


def its_process_is_killed(server):
    server.apply(minReplicas=2)
    server.until_ready(2)
    with server.unharmed("kill -9 of a process, until its container is ready again"):
        kill(*server.command[:2])
        wait_until("a container was restarted", 60, lambda: set(restarts()) & set(pods(NAME)))
        server.until_ready(2)


def its_pod_is_deleted(server):
    """Deletes both pods, one after the other, while longer requests are in flight."""
    failures = []

    def slow():
        try:
            send(server.case.slow)
        except (Failure, AssertionError) as error:
            failures.append(error)

    with server.unharmed("kubectl delete pod with longer requests in flight, for each pod"):
        for pod in pods(NAME):
            threads = [threading.Thread(target=slow) for _ in range(2)]
            for thread in threads:
                thread.start()
            kubectl("delete", "pod", pod)
            for thread in threads:
                thread.join()
            server.until_ready(2)
    expect("failed longer requests", [], failures)


def it_rolls_out(server):
    with server.unharmed("a canary of 50 %, promoted, until no former pod is left") as traffic:
        server.apply("2", minReplicas=1, canaryTrafficPercent=50)
        wait_until("the canary answers", 2 * server.case.start, lambda: f"{NAME}-predictor-00002" in traffic.revisions)
        server.apply("2", minReplicas=1)
        wait_until("no former pod", 120, lambda: not any("-00001-" in pod for pod in pods(NAME)))


def it_sleeps_and_wakes(server):
    with step(server.step("no requests, until no pod is left")):
        retention = {"autoscaling.knative.dev/scale-to-zero-pod-retention-period": "2s"}
        server.apply("2", retention, minReplicas=0)
        wait_until("no pod", 120, lambda: not kubectl("get", "pods", "-l", f"serving.kserve.io/inferenceservice={NAME}", "-o", "name"))
    with step(server.step("a request to a service without pods")):
        send(server.case.infer, timeout=2 * server.case.start)


def delete():
    kubectl("delete", "inferenceservice", NAME, "--timeout", "60s")
    wait_until("everything is deleted", 60, lambda: not left(NAME))


LIFE = (it_becomes_ready_and_answers, its_process_is_killed, its_pod_is_deleted, it_rolls_out, it_sleeps_and_wakes)


def life_of(case):
    def part():
        for act in LIFE:
            act(Server(case))
        delete()

    part.__name__ = case.name
    return part


def from_triton_to_kserve():
    """Replaces a server by one of another kind, which speaks the same protocol."""
    former, newer = Server(cases.TRITON), Server(cases.KSERVE)
    with step("triton, until it is ready"):
        former.apply()
        former.until_ready(1)

    def check(answer):
        data = {output["name"]: output["data"] for output in answer["outputs"]}["OUTPUT"]
        expect("the answer of either server", True, data in ([2, 4, 42], [1, 1.5, 8]))

    infer = cases.TRITON.infer
    with unharmed("kserve as a canary of triton, promoted", NAME, url(infer), body(infer), check, clients=CLIENTS) as traffic:
        newer.apply(canaryTrafficPercent=50)
        wait_until("the canary answers", 180, lambda: f"{NAME}-predictor-00002" in traffic.revisions)
        newer.apply()
        wait_until("no former pod", 120, lambda: not any("-00001-" in pod for pod in pods(NAME)))
    send(cases.KSERVE.infer)
    delete()


if __name__ == "__main__":
    run("servers", (*(life_of(case) for case in cases.CASES if not case.missing()), from_triton_to_kserve))
