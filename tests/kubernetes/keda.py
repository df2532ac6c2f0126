"""Tests that a real KEDA scales services, with a control plane and simulated nodes: KEDA wakes services from zero when a
request comes, scales them out and lets them sleep again, and Weir's controller writes none of these replica counts.
`make test-keda` runs:

    tests/kubernetes/bed/with-control-plane.sh python3 -B tests/kubernetes/keda.py
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from concurrent import futures
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "keda"))
from keda_programs import KedaPrograms  # noqa: E402 - found by the line above
from model_server import ANSWER, Addresses, ModelServer  # noqa: E402
from programs import apply  # noqa: E402
from weir import ROOT, expect, kubectl, post, step, wait_until  # noqa: E402

NAMESPACE = "team"
# Field managers that may set replica counts: KEDA, and the controller of the HPA that KEDA creates.
SCALERS = {"keda", "kube-controller-manager"}
# Polling interval in seconds that is longer than the test, so that KEDA only acts when it is notified.
NEVER = 3600
REQUEST = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [21]}]}).encode()


class FieldRecord:
    """The values of a number field of an object from now on, and the field managers that wrote them, if the API server
    records these: it records none for writes to a Deployment's `scale`."""

    def __init__(self, kind, name, *path):
        self.path, self.seen = path, []
        command = ["kubectl", "get", kind, name, "-n", NAMESPACE, "--watch", "--show-managed-fields", "-o", "json"]
        self.watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        text = ""
        for line in self.watch.stdout:
            text += line
            # The last line of an object; the lines within it are indented.
            if line == "}\n":
                self.record(json.loads(text))
                text = ""

    def record(self, found):
        entries = found["metadata"]["managedFields"]
        writers = {entry["manager"] for entry in entries if self.is_in(entry["fieldsV1"])}
        for part in self.path:
            found = found[part]
        if not self.seen or self.seen[-1][0] != found:
            self.seen.append((found, writers))

    def is_in(self, fields):
        for part in self.path:
            fields = fields.get(f"f:{part}")
            if fields is None:
                return False
        return True

    def expect(self, numbers):
        """Checks the values of the field, and that only KEDA and the HPA wrote one after the first."""
        expect("numbers of replicas", numbers, [number for number, _ in self.seen])
        expect("other writers of the replicas", set(), set().union(*(writers for _, writers in self.seen[1:])) - SCALERS)

    def __enter__(self):
        self.thread.start()
        wait_until("the first number of replicas", 60, lambda: self.seen)
        return self

    def __exit__(self, *_):
        self.watch.terminate()
        self.watch.wait()
        self.thread.join()


class Bed:
    """The programs, the model server behind all pods, and the services in front of them."""

    def __init__(self, programs, server):
        self.programs, self.server = programs, server
        self.gateway, self.scaler = programs.start_weir()
        programs.start_keda()
        kubectl("create", "namespace", NAMESPACE)
        self.clients = futures.ThreadPoolExecutor(32)

    def serve(self, name, autoscaler_class):
        """Declares a service that sleeps, and whose pods take one request at a time."""
        container = {"name": "kserve-container", "image": "example/server:1", "env": [{"name": "PROTOCOL", "value": "v2"}],
                     "ports": [{"containerPort": self.server.port}]}
        apply({
            "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"serving.kserve.io/autoscalerClass": autoscaler_class}},
            "spec": {"predictor": {"minReplicas": 0, "containerConcurrency": 1, "containers": [container]}},
        })
        wait_until(f"the Deployment of {name}", 60, lambda: exists("deployment", revision(name)))

    def documented(self):
        """Returns the ScaledObject of docs/kubernetes.md, in this namespace and with this autoscaler's address."""
        page = (ROOT / "docs/kubernetes.md").read_text()
        example = next(block for block in re.findall(r"```yaml\n(.*?)```", page, re.S) if "kind: ScaledObject" in block)
        there = "weir-autoscaler.weir-system:9090"
        expect("addresses in the example", 1, example.count(there))
        example = example.replace(there, f"127.0.0.1:{self.scaler}")
        return json.loads(kubectl("create", "--dry-run=client", "-n", NAMESPACE, "-o", "json", "-f", "-", stdin=example))

    def infer(self, name, count=1):
        """Sends requests concurrently, and returns futures of their answers."""
        url = f"http://127.0.0.1:{self.gateway}/serving/{NAMESPACE}/{name}/v2/models/{name}/infer"
        return [self.clients.submit(post, url, REQUEST, timeout=120) for _ in range(count)]


def revision(name):
    return f"{name}-predictor-00001"


def exists(kind, name):
    return kubectl("get", kind, name, "-n", NAMESPACE, "--ignore-not-found")


def answered(requests):
    for request in requests:
        expect("the answer", ANSWER, request.result(120)[1])


def look_each(name, seconds):
    """Sets KEDA's polling interval, and lets the service sleep soon after its last request."""
    spec = {"pollingInterval": seconds, "cooldownPeriod": 5}
    kubectl("patch", "scaledobject", name, "-n", NAMESPACE, "--type", "merge", "-p", json.dumps({"spec": spec}))


def condition(kind, name, condition_type):
    path = f'{{.status.conditions[?(@.type=="{condition_type}")].status}}'
    return kubectl("get", kind, name, "-n", NAMESPACE, "-o", f"jsonpath={path}")


def scale(scaled_object):
    """Applies a ScaledObject, and waits until KEDA scales its target, which has no pods."""
    name = scaled_object["metadata"]["name"]
    apply(scaled_object)
    wait_until(f"KEDA has taken {name} over", 60, lambda: condition("scaledobject", name, "Ready") == "True")
    wait_until(f"the HPA of {name}", 60, lambda: exists("hpa", f"keda-hpa-{name}"))
    until_asleep(name)
    expect("other scalers of the service", "", condition("inferenceservice", name, "ScaledByAnother"))


def replicas(name):
    return int(kubectl("get", "deployment", revision(name), "-n", NAMESPACE, "-o", "jsonpath={.spec.replicas}"))


def until_asleep(name):
    """Waits until the service sleeps: KEDA's scaler is active for 30 s after the last request, and KEDA's cooldown
    follows."""
    wait_until(f"no replicas of {name}", 180, lambda: replicas(name) == 0)
    pods = ("get", "pods", "-n", NAMESPACE, "-o", "name", "-l", f"serving.kserve.io/inferenceservice={name}")
    wait_until(f"no pod of {name}", 60, lambda: not kubectl(*pods))


def serve_deployment(bed, name):
    """Declares a service whose Deployment KEDA scales, but only when it is notified."""
    bed.serve(name, "external")
    scaled_object = bed.documented()
    scaled_object["metadata"]["name"] = scaled_object["spec"]["triggers"][0]["metadata"]["service"] = name
    scaled_object["spec"] |= {"scaleTargetRef": {"name": revision(name)}, "pollingInterval": NEVER}
    scale(scaled_object)
    return FieldRecord("deployment", revision(name), "spec", "replicas")


def a_deployment_wakes_and_falls_asleep(bed):
    with serve_deployment(bed, "direct") as numbers:
        with step("a Deployment, from zero replicas to the first response"):
            answered(bed.infer("direct"))
        with step("scale-down to zero"):
            look_each("direct", 2)
            until_asleep("direct")
    numbers.expect([0, 1, 0])


def a_request_wakes_what_was_busy_just_now(bed):
    with serve_deployment(bed, "busy") as numbers:
        answered(bed.infer("busy"))
        kubectl("scale", "deployment", revision("busy"), "-n", NAMESPACE, "--replicas", "0")
        until_asleep("busy")
        with step("a Deployment that a user scaled to zero, until the first response"):
            answered(bed.infer("busy"))
    numbers.expect([0, 1, 0, 1])


def a_request_is_not_lost_with_the_autoscaler(bed):
    with serve_deployment(bed, "patient") as numbers:
        bed.programs.end("autoscaler")
        requests = bed.infer("patient")
        with step("an autoscaler that starts late, until the first response"):
            bed.programs.start_again("autoscaler")
            answered(requests)
    numbers.expect([0, 1])


def a_service_scales_as_the_page_says(bed):
    bed.serve("digits", "none")
    scale(bed.documented())
    look_each("digits", 2)
    with FieldRecord("inferenceservice", "digits", "spec", "predictor", "minReplicas") as numbers:
        bed.server.may_answer.clear()
        with step("a service, from zero to three pods"):
            requests = bed.infer("digits", 12)
            wait_until("three pods", 90, lambda: replicas("digits") == 3)
        bed.server.may_answer.set()
        answered(requests)
        with step("scale-down to zero"):
            until_asleep("digits")
    numbers.expect([0, 1, 3, 0])


PARTS = [
    a_deployment_wakes_and_falls_asleep,
    a_request_wakes_what_was_busy_just_now,
    a_request_is_not_lost_with_the_autoscaler,
    a_service_scales_as_the_page_says,
]


def explanation(programs):
    parts = [["get", "scaledobjects,hpa,deployments,pods,inferenceservices"], ["describe", "scaledobjects,hpa,inferenceservices"]]
    said = [subprocess.run(["kubectl", *part, "-A"], capture_output=True, text=True).stdout for part in parts]
    return "\n".join(said + [f"{name}:\n{programs.log(name)[-4000:]}" for name in programs.running])


def main():
    keda = subprocess.run([ROOT / "tests/kubernetes/keda/build.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    os.environ["KUBECONFIG"] = os.environ["WEIR_TEST_KUBECONFIG"]
    named = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="weir-keda-") as folder, KedaPrograms(folder, keda) as programs:
        try:
            bed = Bed(programs, ModelServer())
            with Addresses(NAMESPACE):
                for part in PARTS:
                    if not named or part.__name__ in named:
                        part(bed)
        except Exception:
            print(explanation(programs), file=sys.stderr)
            raise


if __name__ == "__main__":
    main()
