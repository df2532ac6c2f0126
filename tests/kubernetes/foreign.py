"""Tests a model server other than Weir's on the one-node cluster: no request fails because of changes to its pods or to
the gateways, and its service is ready all the time. The server drops its requests on SIGTERM, so this tests how Weir
protects such pods. To be run as root in the cluster's network, after weir-up.sh and `foreign/load.sh`:

    target/cluster/exec .venv/bin/python tests/kubernetes/foreign.py
"""

import json

from weir import (
    condition, expect, kill, kubectl, left, patch, pods, post, ready_pods, restart_gateways, run, step, unharmed, wait_until,
)

NAME, BY_RUNTIME = "doubler", "doubler-runtime"
ONE = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [21]}]}).encode()
# The clients need less than half of one pod's throughput. The autoscaler therefore removes no pod until many requests
# were in time.
CLIENTS = 2
RESOURCES = {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
SERVER = {"name": "kserve-container", "image": "weir.dev/foreign:test", "imagePullPolicy": "Never", "resources": RESOURCES}
# Short, so that the pods of a former revision end during the test.
ANNOTATIONS = {"weir.dev/rollback-window": "1s"}


def url(name):
    return f"http://{name}.default/v2/models/{name}/infer"


def apply(kind, version, name, spec, annotations={}):
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}))


def containers(answer):
    """Returns a custom predictor, whose variables declare that it speaks V2."""
    variables = {"PROTOCOL": "v2", "ANSWER": answer}
    return [{**SERVER, "env": [{"name": name, "value": value} for name, value in variables.items()]}]


def answers(answer):
    outputs = {output["name"]: output["data"][0] for output in answer["outputs"]}
    expect("twice the number", 42, outputs["OUTPUT0"])
    return outputs["ANSWER"]


def unharmed_service(name, service=NAME):
    return unharmed(name, service, url(service), ONE, answers, clients=CLIENTS)


def only(expected):
    return all(answers(post(url(NAME), ONE)[1]) == expected for _ in range(30))


def until_ready(name, count):
    wait_until(f"{count} pods", 90, lambda: ready_pods(name) == count == len(pods(name)))
    wait_until("Ready", 60, lambda: condition(name) == "True")


def pods_are_completed(name):
    for pod in pods(name):
        container = json.loads(kubectl("get", "pod", pod, "-o", "json"))["spec"]["containers"][0]
        expect("the pause", {"sleep": {"seconds": 5}}, container["lifecycle"]["preStop"])
        expect("the ready call", "/v2/health/ready", container["readinessProbe"]["httpGet"]["path"])


def a_custom_predictor_starts():
    predictor = {"minReplicas": 2, "maxReplicas": 3, "containers": containers("first")}
    with step("a custom predictor, until two pods are ready"):
        apply("InferenceService", "serving.kserve.io/v1beta1", NAME, {"predictor": predictor}, ANNOTATIONS)
        until_ready(NAME, 2)
    pods_are_completed(NAME)
    expect("the answer", "first", answers(post(url(NAME), ONE)[1]))


def it_rolls_out():
    with unharmed_service("a rollout, until the former pods have ended"):
        patch(NAME, {"spec": {"predictor": {"containers": containers("second")}}})
        wait_until("only the second answers", 90, lambda: only("second"))
        wait_until("no former pod", 120, lambda: not any("-00001-" in pod for pod in pods(NAME)))


def a_canary_is_promoted():
    with unharmed_service("a canary of 50 %, promoted") as traffic:
        patch(NAME, {"spec": {"predictor": {"canaryTrafficPercent": 50, "containers": containers("third")}}})
        wait_until("the canary answers", 90, lambda: f"{NAME}-predictor-00003" in traffic.revisions)
        patch(NAME, {"spec": {"predictor": {"canaryTrafficPercent": None}}})
        wait_until("only the third answers", 90, lambda: only("third"))
        wait_until("no former pod", 120, lambda: not any("-00002-" in pod for pod in pods(NAME)))


def it_is_scaled_in_and_out():
    with unharmed_service("kubectl scale to three pods, and in to one"):
        kubectl("scale", f"inferenceservice/{NAME}", "--replicas", "3")
        wait_until("three pods", 90, lambda: ready_pods(NAME) == 3)
        kubectl("scale", f"inferenceservice/{NAME}", "--replicas", "1")
        wait_until("one pod", 180, lambda: len(pods(NAME)) == 1)
        # The other pods end only after their preStop delay, and are listed until then.
        listed = ("get", "pods", "-l", f"serving.kserve.io/inferenceservice={NAME}", "-o", "name")
        wait_until("the other pods have ended", 60, lambda: len(kubectl(*listed).split()) == 1)


def a_pod_is_deleted(name=NAME):
    kubectl("scale", f"inferenceservice/{name}", "--replicas", "2")
    until_ready(name, 2)
    with unharmed_service("kubectl delete pod, until another has taken its place", name):
        former = pods(name)[0]
        kubectl("delete", "pod", former)
        until_ready(name, 2)


def a_server_is_killed():
    with unharmed_service("kill -9 of a server, until it is ready again"):
        kill("/server.py")
        wait_until("one pod less", 20, lambda: ready_pods(NAME) == 1)
        wait_until("two pods again", 60, lambda: ready_pods(NAME) == 2)


def the_gateways_restart():
    with unharmed_service("a rolling restart of the gateways, until the former have ended"):
        restart_gateways()


def a_serving_runtime_does_the_same():
    runtime = {
        "supportedModelFormats": [{"name": "doubler", "autoSelect": True}], "protocolVersions": ["v2"], "containers": [SERVER],
    }
    model = {"modelFormat": {"name": "doubler"}, "env": [{"name": "ANSWER", "value": "first"}]}
    with step("a service with a ServingRuntime, until two pods are ready"):
        apply("ServingRuntime", "serving.kserve.io/v1alpha1", "doubler", runtime)
        service = {"predictor": {"minReplicas": 2, "maxReplicas": 2, "model": model}}
        apply("InferenceService", "serving.kserve.io/v1beta1", BY_RUNTIME, service, ANNOTATIONS)
        until_ready(BY_RUNTIME, 2)
    pods_are_completed(BY_RUNTIME)
    a_pod_is_deleted(BY_RUNTIME)


def leave():
    kubectl("delete", "inferenceservice", "--all", "--timeout", "60s")
    kubectl("delete", "servingruntime", "doubler", "--ignore-not-found")
    wait_until("everything is deleted", 60, lambda: not left(NAME))


if __name__ == "__main__":
    run("foreign", (
        a_custom_predictor_starts, it_rolls_out, a_canary_is_promoted, it_is_scaled_in_and_out, a_pod_is_deleted, a_server_is_killed,
        the_gateways_restart, a_serving_runtime_does_the_same, leave,
    ))
