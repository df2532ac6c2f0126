"""A user's way through Weir on the one-node cluster, from the first `kubectl apply` to a deletion that leaves nothing; with the time
of each step, and with requests all the while, none of which may fail. To be run in the cluster's network, after weir-up.sh:

    target/cluster/exec .venv/bin/python tests/kubernetes/walk.py
"""

import contextlib
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton

ROOT = Path(__file__).resolve().parents[2]
GATEWAY = "weir-gateway.weir-system.svc.cluster.local"
DOMAIN = "example.com"
DIGITS = "http://digits.default"
INPUT = (ROOT / "examples/digits/inputs/digit-7-a.json").read_bytes()
IMAGE = ROOT / "examples/digits/inputs/digit-7-a.npy"
SEVEN = 7
INFER = "/v2/models/digits/infer"


class Failure(Exception):
    """What a user would have seen instead of what was promised."""


def kubectl(*arguments, stdin=None):
    done = subprocess.run(["kubectl", *arguments], input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def expect(what, expected, found):
    if found != expected:
        raise Failure(f"{what}: expected {expected!r}, found {found!r}")


def wait_until(what, seconds, check):
    """Waits until `check` returns something true, and returns it."""
    until = time.monotonic() + seconds
    while True:
        if found := check():
            return found
        if time.monotonic() > until:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(0.1)


@contextlib.contextmanager
def step(name):
    begun = time.monotonic()
    yield
    print(f"{time.monotonic() - begun:7.2f} s  {name}", flush=True)


def post(url, body=INPUT, headers={}, timeout=60):
    """The answer's revision and its JSON."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.headers["weir-revision"], json.load(answer)
    except urllib.error.HTTPError as error:
        raise Failure(f"{url}: {error.code} {error.read().decode()}") from error
    except OSError as error:
        raise Failure(f"{url}: {error}") from error


def digit(answer):
    return next(output for output in answer["outputs"] if output["name"] == "digit")["data"][0]


class Traffic:
    """Requests one after the other from the side, from `start` to `stop`: who answered, and what failed."""

    def __init__(self, url):
        self.url, self.revisions, self.failures = url, Counter(), []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.ended.is_set():
            try:
                revision, answer = post(self.url)
                self.revisions[revision] += 1
                expect("the digit", SEVEN, digit(answer))
            except (Failure, ValueError) as error:
                self.failures.append(str(error))
            time.sleep(0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


class Readiness:
    """What `Ready` of the service has been, from its first True on."""

    def __init__(self, name):
        path = '{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].message}{"\\n"}'
        self.watch = subprocess.Popen(
            ["kubectl", "get", "inferenceservice", name, "--watch", "-o", f"jsonpath={path}"], stdout=subprocess.PIPE, text=True
        )
        self.seen = []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        for line in self.watch.stdout:
            self.seen.append(line.strip())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.watch.terminate()
        self.thread.join()


def service(path, name="digits"):
    return kubectl("get", "inferenceservice", name, "-o", f"jsonpath={path}")


def condition(name, kind="Ready"):
    return service(f'{{.status.conditions[?(@.type=="{kind}")].status}}', name)


def pods(name):
    """Names of the service's pods that are not about to end."""
    listed = json.loads(kubectl("get", "pods", "-l", f"serving.kserve.io/inferenceservice={name}", "-o", "json"))
    return [pod["metadata"]["name"] for pod in listed["items"] if "deletionTimestamp" not in pod["metadata"]]


def restarts():
    listed = json.loads(kubectl("get", "pods", "-A", "-o", "json"))
    return {
        pod["metadata"]["name"]: status["restartCount"]
        for pod in listed["items"]
        for status in pod["status"].get("containerStatuses", [])
        if status["restartCount"]
    }


def patch(name, body):
    kubectl("patch", "inferenceservice", name, "--type", "merge", "-p", json.dumps(body))


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
    # Unknown while a new revision starts, as in KServe.
    expect("what Ready was", [], [said for said in readiness.seen if said.startswith("False")])
    print(f"           {sum(traffic.revisions.values())} requests from the side, none failed")


def gateways():
    return set(kubectl("get", "pods", "-n", "weir-system", "-l", "app.kubernetes.io/name=weir-gateway", "-o", "name").split())


def is_ready(pod):
    ready = '{.status.conditions[?(@.type=="Ready")].status}'
    return subprocess.run(["kubectl", "get", "pod", pod, "-o", f"jsonpath={ready}"], capture_output=True, text=True).stdout == "True"


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


def left():
    kinds = "deployments,replicasets,pods,services,endpointslices,controllerrevisions,configmaps,secrets"
    return [name for name in kubectl("get", kinds, "-o", "name").split() if "digits" in name]


def main():
    kubectl("delete", "inferenceservice", "--all", "--timeout", "60s")
    begun = time.monotonic()
    try:
        for part in (apply_and_ask, ask_by_grpc, roll_out, leave, sleep_and_wake, leave):
            part()
        expect("restarted pods", {}, restarts())
    except Failure as failure:
        print(explanation(), file=sys.stderr)
        sys.exit(f"walk: {failure}")
    print(f"{time.monotonic() - begun:7.2f} s  in all")


def explanation():
    parts = [
        ["kubectl", "get", "inferenceservices,deployments,pods,services", "-o", "wide"],
        ["kubectl", "describe", "inferenceservices"],
        ["kubectl", "logs", "-n", "weir-system", "-l", "app.kubernetes.io/part-of=weir", "--prefix", "--tail", "20"],
    ]
    return "\n".join(subprocess.run(part, capture_output=True, text=True).stdout for part in parts)


if __name__ == "__main__":
    main()
