"""A user's path through Weir on the one-node cluster, from the first `kubectl apply` to a deletion that leaves nothing.
It prints the time of each step, and sends requests all the time, none of which may fail. To be run in the cluster's
network, after weir-up.sh:

    target/cluster/exec .venv/bin/python tests/kubernetes/walk.py
"""

import functools
import http.server
import json
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.request
from decimal import Decimal

from weir import (
    DIGITS, DOMAIN, GATEWAY, INFER, ROOT, SEVEN, Traffic, condition, expect, helm, kubectl, left, pods, post, ready_pods,
    restart_gateways, restarts, run, service, step, unharmed, wait_until,
)
import scenarios  # noqa: E402 - found by way of weir

MODEL = ROOT / "examples/digits/weir-examples/digits/1"
# Address of the node, where pods reach the servers of this process.
NODE = "100.64.0.10"


class Cluster:
    """The one-node cluster as a bed, in which replicas are pods."""

    def apply(self, body):
        kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def delete(self):
        kubectl("delete", "inferenceservice", "digits", "--timeout", "60s")

    def is_ready(self):
        return condition("digits") == "True"

    def http(self):
        return {
            "by its name": (DIGITS, {}),
            "by its address": (service("{.status.address.url}"), {}),
            "by its predictor's address": (service("{.status.components.predictor.address.url}"), {}),
            "by its host": (f"http://{GATEWAY}", {"Host": f"digits-default.{DOMAIN}"}),
            "by its path": (f"http://{GATEWAY}/serving/default/digits", {}),
        }

    def grpc(self):
        return {
            "by its name": ("digits.default:8081", None),
            "by its predictor's address": ("digits-predictor.default.svc.cluster.local:80", None),
        }

    def replicas(self):
        return len(kubectl("get", "pods", "-l", "serving.kserve.io/inferenceservice=digits", "-o", "name").split())

    def left(self):
        return left()


BED = Cluster()
KIND = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}


def kubectl_shows_it():
    expect("the URL", f"http://digits-default.{DOMAIN}", service("{.status.url}"))
    expect("the generation", service("{.metadata.generation}"), service("{.status.observedGeneration}"))
    print(kubectl("get", "inferenceservice", "digits"))


def pods_and_gateways_come_and_go():
    url = f"{DIGITS}{INFER}"
    with unharmed("kubectl delete pod, until another has taken its place", "digits", url):
        kubectl("scale", "inferenceservice/digits", "--replicas", "2")
        wait_until("two pods", 60, lambda: ready_pods("digits", "-00002-") == 2)
        kubectl("delete", "pod", next(pod for pod in pods("digits") if "-00002-" in pod), "--wait=false")
        wait_until("two pods again", 60, lambda: ready_pods("digits", "-00002-") == 2)
    with unharmed("a rolling restart of the gateways, until the former have ended", "digits", url):
        restart_gateways()


def print_wake_up():
    """Prints the stages of a wake-up from the pod's status, in seconds since its creation."""
    pod = json.loads(kubectl("get", "pods", "-l", "serving.kserve.io/inferenceservice=digits", "-o", "json"))["items"][0]
    times = {"created": pod["metadata"]["creationTimestamp"]}
    times |= {part["type"]: part["lastTransitionTime"] for part in pod["status"]["conditions"]}
    print("           " + ", ".join(f"{name} {at[11:19]}" for name, at in times.items()))


def upgrade(settings):
    """Sets values of the chart with `helm upgrade`, as a user would."""
    helm("upgrade", "weir", str(ROOT / "charts/weir"), "-n", "weir-system", "--reuse-values", "--set", settings, "--wait")


def set_metrics_apis(switch):
    upgrade(",".join(f"metricsApi.{api}={switch}" for api in ("custom", "external")))


def values(path):
    return [Decimal(item["value"].replace("m", "e-3")) for item in json.loads(kubectl("get", "--raw", f"/apis/{path}"))["items"]]


def autoscalers_read_its_load():
    """Reads the load through the API server and the chart's Service, as a HorizontalPodAutoscaler does, and then with a
    real HPA."""
    with step("helm upgrade with the metrics APIs, until they are available"):
        set_metrics_apis("true")
        for api in ("v1beta2.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"):
            kubectl("wait", "--for", "condition=Available", f"apiservice/{api}", "--timeout", "60s")
    label = "serving.kserve.io%2Finferenceservice%3Ddigits"
    external = f"external.metrics.k8s.io/v1beta1/namespaces/default/weir_requests_per_second?labelSelector={label}"
    custom = "custom.metrics.k8s.io/v1beta2/namespaces/default"
    metric = "nv_inference_pending_request_count"
    with step("requests, until the external metric counts them"), Traffic(f"{DIGITS}{INFER}"):
        wait_until("the requests are counted", 60, lambda: [value > 1 for value in values(external)] == [True])
        kubectl("apply", "-f", "-", stdin=json.dumps(AUTOSCALER))
    expect("pending requests of the service", [0], values(f"{custom}/inferenceservices.serving.kserve.io/digits/{metric}"))
    expect("pending requests of each pod", {0}, set(values(f"{custom}/pods/*/{metric}?labelSelector={label}")))
    with step("a HorizontalPodAutoscaler, until it has read its metric"):
        kubectl("wait", "--for", "condition=ScalingActive", "hpa/digits", "--timeout", "60s")
    kubectl("delete", "hpa", "digits")
    set_metrics_apis("false")


AUTOSCALER = {
    "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "digits", "namespace": "default"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": "digits"},
        "minReplicas": 1, "maxReplicas": 2,
        "metrics": [{"type": "External", "external": {
            "metric": {
                "name": "weir_requests_per_second",
                "selector": {"matchLabels": {"serving.kserve.io/inferenceservice": "digits"}},
            },
            "target": {"type": "AverageValue", "averageValue": "1000"},
        }}],
    },
}


def gateways_hand_over_behind_tls():
    """The only replica takes one request at once, so the gateway that owns the queue receives the requests of the other
    gateway."""
    BED.apply(scenarios.digits(containerConcurrency=1, maxReplicas=1, minReplicas=1))
    wait_until("Ready", 90, BED.is_ready)
    with tempfile.TemporaryDirectory() as folder, step("helm upgrade with a certificate, until the gateways serve TLS"):
        pair = [f"{folder}/tls.key", f"{folder}/tls.crt"]
        names = f"subjectAltName=DNS:{GATEWAY}"
        made = "openssl req -x509 -nodes -newkey rsa:2048 -subj /CN=weir".split() + ["-addext", names, "-keyout", pair[0], "-out", pair[1]]
        subprocess.run(made, check=True, capture_output=True)
        kubectl("create", "secret", "tls", "tls", "-n", "weir-system", "--key", pair[0], "--cert", pair[1])
        trusted = ssl.create_default_context(cafile=pair[1])
        upgrade("gateway.tls.secretName=tls")
    urllib.request.install_opener(urllib.request.build_opener(urllib.request.HTTPSHandler(context=trusted)))
    url = f"https://{GATEWAY}/serving/default/digits{INFER}"
    with unharmed("requests over TLS to both gateways, and without", "digits", url, clients=4), Traffic(f"{DIGITS}{INFER}") as plain:
        time.sleep(5)
    expect("failed requests without TLS", [], plain.failures[:5])
    upgrade("gateway.tls.secretName=")
    kubectl("delete", "secret", "tls", "-n", "weir-system")
    BED.delete()


def a_host_is_the_older_services():
    """Two services of two namespaces have names that make the same host. They are stopped, so that they need no pods.
    """
    name = lambda namespace, name: ("-n", namespace, f"inferenceservice/{name}")  # noqa: E731
    older, newer = name("one-two", "host"), name("two", "host-one")
    for namespace, service_name in (("one-two", "host"), ("two", "host-one")):
        kubectl("create", "namespace", namespace)
        metadata = {"name": service_name, "annotations": {"serving.kserve.io/stop": "true"}}
        predictor = {"containers": [{"name": "kserve-container", "image": "example.com/none:1"}]}
        body = {**KIND, "metadata": metadata, "spec": {"predictor": predictor}}
        kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(body))
        # Creation times have a resolution of one second.
        time.sleep(1.1)
    with step("a host that an older service in another namespace holds, until the younger service reports the conflict"):
        kubectl("wait", *newer, "--for", "condition=HostConflict", "--timeout", "60s")
    message_path = '{.status.conditions[?(@.type=="HostConflict")].message}'
    conflict = kubectl("get", *newer, "-o", f"jsonpath={message_path}")
    expect("the conflict names the older service", True, "host host-one-two.example.com belongs to one-two/host" in conflict)
    expect("the older service's conflict", "", kubectl("get", *older, "-o", f"jsonpath={message_path}"))
    with step("deletion of the older service, until the younger one has the host"):
        kubectl("delete", *older, "--timeout", "60s")
        wait_until("no conflict", 60, lambda: not kubectl("get", *newer, "-o", f"jsonpath={message_path}"))
    expect("the younger service's URL", "http://host-one-two.example.com", kubectl("get", *newer, "-o", "jsonpath={.status.url}"))
    for namespace in ("one-two", "two"):
        kubectl("delete", "namespace", namespace, "--timeout", "60s")


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves the model's file over HTTP, without logging each request."""

    def log_message(self, *_):
        pass


def fetch_in_a_restricted_namespace():
    files = http.server.ThreadingHTTPServer((NODE, 0), functools.partial(Files, directory=MODEL))
    threading.Thread(target=files.serve_forever, daemon=True).start()
    model = {
        "modelFormat": {"name": "pytorch"}, "protocolVersion": "v2", "storageUri": f"http://{NODE}:{files.server_port}/model.pt",
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }
    body = {**KIND, "metadata": {"name": "fetched"}, "spec": {"predictor": {"model": model}}}
    kubectl("create", "namespace", "strict")
    kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    with step("a model over HTTP, in a namespace that allows only restricted pods"):
        kubectl("apply", "-n", "strict", "-f", "-", stdin=json.dumps(body))
        kubectl("wait", "-n", "strict", "--for", "condition=Ready", "inferenceservice/fetched", "--timeout", "60s")
        expect("the digit", SEVEN, post("http://fetched.strict/v2/models/fetched/infer")[1]["outputs"][1]["data"][0])
    with step("kubectl delete namespace"):
        kubectl("delete", "namespace", "strict", "--timeout", "60s")
    files.shutdown()


def no_pod_was_restarted():
    expect("restarted pods", {}, restarts())


if __name__ == "__main__":
    it_becomes_ready, *its_life, it_sleeps_and_wakes, it_is_deleted = scenarios.on(BED, *scenarios.ALL)
    *its_life, first_end = its_life
    run("walk", (
        it_becomes_ready, kubectl_shows_it, *its_life, pods_and_gateways_come_and_go, autoscalers_read_its_load,
        first_end, it_sleeps_and_wakes, print_wake_up, it_is_deleted, fetch_in_a_restricted_namespace,
        a_host_is_the_older_services, gateways_hand_over_behind_tls, no_pod_was_restarted,
    ))
