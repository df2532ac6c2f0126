"""Tests what only real pods show, in two minutes: the life of a service from `kubectl apply` to a complete deletion, with
a rollout that is rolled back, a wake-up from zero and an eviction, and then the removal of Weir itself. No request may
fail meanwhile. `test-cluster.sh short` runs this in the cluster's network:

    target/cluster/exec .venv/bin/python tests/kubernetes/short_walk.py
"""

import json

from walk import BED, KIND, no_pod_was_restarted
from weir import (
    ROW, Traffic, expect, helm, kubectl, pods, post, ready_pods, run, service, step, unharmed, wait_until, write_slow_model,
)
import scenarios  # noqa: E402 - found by way of weir

STEADY = "http://steady.default/v2/models/steady/infer"
# A response of the slow model takes longer than 1.5 times that of the fast one, which is the limit of a rollout.
FAST, SLOW = 1, 100


def steady(folder):
    """Returns a service with two replicas of the model in `folder`, whose changes are rolled out automatically."""
    resources = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    model = {"modelFormat": {"name": "echo"}, "protocolVersion": "v2", "storageUri": f"pvc://weir-examples/{folder}", "resources": resources}
    annotations = {"weir.dev/rollout": "automatic", "weir.dev/rollout-steps": "50@30s", "weir.dev/rollback-window": "0s"}
    metadata = {"name": "steady", "annotations": annotations}
    return {**KIND, "metadata": metadata, "spec": {"predictor": {"minReplicas": 2, "maxReplicas": 2, "model": model}}}


def is_one(answer):
    expect("the row", [1], answer["outputs"][0]["data"])


def a_slow_revision_is_rolled_back():
    write_slow_model("fast", FAST)
    write_slow_model("slow", SLOW)
    BED.apply(steady("fast"))
    kubectl("wait", "--for", "condition=Ready", "inferenceservice/steady", "--timeout", "60s")
    with step("a slow revision, until it is rolled back"), Traffic(STEADY, ROW, is_one, clients=4) as traffic:
        BED.apply(steady("slow"))
        wait_until("the rollback", 120, lambda: "was rolled back" in (rollout() or ""))
        wait_until("the stable revision alone answers", 30, lambda: {post(STEADY, ROW)[0] for _ in range(20)} == {"steady-predictor-00001"})
    expect("failed requests", [], traffic.failures[:5])
    print(f"           {rollout()}")


def rollout():
    return service('{.status.conditions[?(@.type=="RolloutComplete")].message}', "steady")


def evict(pod):
    """Asks for an eviction, as `kubectl drain` does for each pod of a node."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{pod}/eviction", "-f", "-", stdin=json.dumps(body))


def every_pod_is_evicted():
    """A node that is drained would have no other node to go to here, so the pods are evicted without closing the node."""
    BED.apply(steady("fast"))
    wait_until("two pods", 60, lambda: ready_pods("steady") == 2 and len(pods("steady")) == 2)
    former = pods("steady")
    with unharmed("evictions, one pod after the other, until others have taken their places", "steady", STEADY, ROW, is_one):
        for pod in former:
            evict(pod)
            wait_until("two pods again", 60, lambda: ready_pods("steady") == 2 and pod not in pods("steady"))
    kubectl("delete", "inferenceservice", "steady", "--timeout", "60s")


def weir_is_uninstalled():
    with step("helm uninstall, until no pod of Weir is left"):
        helm("uninstall", "weir", "-n", "weir-system", "--wait")
        wait_until("no pods", 60, lambda: not kubectl("get", "pods", "-n", "weir-system", "-o", "name"))
    kinds = "clusterroles,clusterrolebindings,validatingwebhookconfigurations,apiservices,priorityclasses"
    names = kubectl("get", kinds, "-o", "name").split()
    expect("objects of Weir", [], [name for name in names if "weir" in name])


if __name__ == "__main__":
    it_becomes_ready, over_http, over_grpc, _, _, it_sleeps_and_wakes, it_is_deleted = scenarios.on(BED, *scenarios.ALL)
    run("short walk", (
        it_becomes_ready, over_http, over_grpc, it_is_deleted, a_slow_revision_is_rolled_back, every_pod_is_evicted,
        it_sleeps_and_wakes, it_is_deleted, no_pod_was_restarted, weir_is_uninstalled,
    ))
