"""A user's way through Weir on the one-node cluster, from the first `kubectl apply` to a deletion that leaves nothing; with the time
of each step, and with requests all the while, none of which may fail. To be run in the cluster's network, after weir-up.sh:

    target/cluster/exec .venv/bin/python tests/kubernetes/walk.py
"""

import functools
import http.server
import json
import threading

import numpy as np
import tritonclient.grpc as triton

from weir import (
    DIGITS, DOMAIN, GATEWAY, INFER, ROOT, SEVEN, Failure, Readiness, Traffic, condition, digit, expect, gateways, is_ready, kubectl, left,
    patch, pods, post, restarts, run, service, step, wait_until,
)

IMAGE = ROOT / "examples/digits/inputs/digit-7-a.npy"
MODEL = ROOT / "examples/digits/weir-examples/digits/1"
# Of the node, where pods reach what this process serves.
NODE = "100.64.0.10"


def apply_and_ask():
    with step("kubectl apply -f examples/digits, until Ready"):
        kubectl("apply", "-f", str(ROOT / "examples/digits"))
        kubectl("wait", "--for", "condition=Ready", "inferenceservice/digits", "--timeout", "60s")
    expect("the URL", f"http://digits-default.{DOMAIN}", service("{.status.url}"))
    expect("the generation", service("{.metadata.generation}"), service("{.status.observedGeneration}"))
    print(kubectl("get", "inferenceservice", "digits"))
    addresses = {
        "by its name": (f"{DIGITS}{INFER}", {}),
        "by its address": (service("{.status.address.url}") + INFER, {}),
        "by its predictor's address": (service("{.status.components.predictor.address.url}") + INFER, {}),
        "by its host": (f"http://{GATEWAY}{INFER}", {"Host": f"digits-default.{DOMAIN}"}),
        "by its path": (f"http://{GATEWAY}/serving/default/digits{INFER}", {}),
    }
    for name, (url, headers) in addresses.items():
        with step(f"a request {name}"):
            expect("the digit", SEVEN, digit(post(url, headers=headers)[1]))


def ask_by_grpc():
    for address in ("digits.default:8081", "digits-predictor.default.svc.cluster.local:80"):
        with step(f"tritonclient over gRPC at {address}"):
            client = triton.InferenceServerClient(address)
            image = triton.InferInput("image", [1, 1, 8, 8], "FP32")
            image.set_data_from_numpy(np.load(IMAGE).astype(np.float32).reshape(1, 1, 8, 8))
            expect("the digit", SEVEN, int(client.infer("digits", [image]).as_numpy("digit")[0, 0]))
            client.close()


def roll_out():
    url = f"{DIGITS}{INFER}"
    with Traffic(url) as traffic, Readiness("digits") as readiness:
        with step("a canary of 20 %, until it takes traffic"):
            canary = {"canaryTrafficPercent": 20, "model": {"env": [{"name": "OMP_NUM_THREADS", "value": "1"}]}}
            patch("digits", {"spec": {"predictor": canary}})
            wait_until("the canary answers", 60, lambda: "digits-predictor-00002" in traffic.revisions)
        with step("2000 requests"):
            share = sum(post(url)[0] == "digits-predictor-00002" for _ in range(2000)) / 20
        if not 17 <= share <= 23:
            raise Failure(f"the canary took {share} % of 2000 requests")
        with step("promotion, until the canary takes all"):
            patch("digits", {"spec": {"predictor": {"canaryTrafficPercent": None}}})
            wait_until("only the new one answers", 60, lambda: all(post(url)[0] == "digits-predictor-00002" for _ in range(50)))
        with step("kubectl delete pod, until another has taken its place"):
            kubectl("scale", "inferenceservice/digits", "--replicas", "2")
            wait_until("two pods", 60, lambda: sum(is_ready(pod) for pod in pods("digits") if "-00002-" in pod) == 2)
            kubectl("delete", "pod", next(pod for pod in pods("digits") if "-00002-" in pod), "--wait=false")
            wait_until("two pods again", 60, lambda: sum(is_ready(pod) for pod in pods("digits") if "-00002-" in pod) == 2)
        with step("a rolling restart of the gateways, until the former have ended"):
            former = gateways()
            kubectl("rollout", "restart", "deployment/weir-gateway", "-n", "weir-system")
            wait_until("no former gateway", 120, lambda: not gateways() & former)
    expect("failed requests", [], traffic.failures[:5])
    expect("what Ready was", [], [said for said in readiness.seen if not said.startswith("True")])
    print(f"           {sum(traffic.revisions.values())} requests from the side, none failed")


def sleep_and_wake():
    """A service anew: one that was rolled out keeps its former revision for ten minutes."""
    kubectl("apply", "-f", str(ROOT / "examples/digits"))
    kubectl("annotate", "inferenceservice", "digits", "autoscaling.knative.dev/scale-to-zero-pod-retention-period=3s")
    kubectl("wait", "--for", "condition=Ready", "inferenceservice/digits", "--timeout", "60s")
    expect("the digit", SEVEN, digit(post(f"{DIGITS}{INFER}")[1]))
    with step("no requests, until no pod is left"):
        wait_until("zero pods", 180, lambda: not pods("digits"))
    expect("Ready at zero", "True", condition("digits"))
    wait_until("no pod ends any more", 60, lambda: not kubectl("get", "pods", "-l", "serving.kserve.io/inferenceservice=digits", "-o", "name"))
    with step("a request to none"):
        expect("the digit", SEVEN, digit(post(f"{DIGITS}{INFER}")[1]))
    print_wake_up()


def print_wake_up():
    """The parts of a wake-up as the pod tells them, in seconds since it was made."""
    pod = json.loads(kubectl("get", "pods", "-l", "serving.kserve.io/inferenceservice=digits", "-o", "json"))["items"][0]
    times = {"created": pod["metadata"]["creationTimestamp"]}
    times |= {part["type"]: part["lastTransitionTime"] for part in pod["status"]["conditions"]}
    print("           " + ", ".join(f"{name} {at[11:19]}" for name, at in times.items()))


def leave():
    with step("kubectl delete, until nothing is left"):
        kubectl("delete", "inferenceservice", "digits", "--timeout", "60s")
        wait_until("all is gone", 60, lambda: not left())


class Files(http.server.SimpleHTTPRequestHandler):
    """The model's file over HTTP, without a line for each request."""

    def log_message(self, *_):
        pass


def fetch_in_a_restricted_namespace():
    files = http.server.ThreadingHTTPServer((NODE, 0), functools.partial(Files, directory=MODEL))
    threading.Thread(target=files.serve_forever, daemon=True).start()
    model = {
        "modelFormat": {"name": "pytorch"}, "protocolVersion": "v2", "storageUri": f"http://{NODE}:{files.server_port}/model.pt",
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }
    body = {
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "fetched"},
        "spec": {"predictor": {"model": model}},
    }
    kubectl("create", "namespace", "strict")
    kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    with step("a model over HTTP, in a namespace that takes restricted pods only"):
        kubectl("apply", "-n", "strict", "-f", "-", stdin=json.dumps(body))
        kubectl("wait", "-n", "strict", "--for", "condition=Ready", "inferenceservice/fetched", "--timeout", "60s")
        expect("the digit", SEVEN, post("http://fetched.strict/v2/models/fetched/infer")[1]["outputs"][1]["data"][0])
    with step("kubectl delete namespace"):
        kubectl("delete", "namespace", "strict", "--timeout", "60s")
    files.shutdown()


def no_pod_was_restarted():
    expect("restarted pods", {}, restarts())


if __name__ == "__main__":
    run("walk", (
        apply_and_ask, ask_by_grpc, roll_out, leave, sleep_and_wake, leave, fetch_in_a_restricted_namespace, no_pod_was_restarted,
    ))
