"""Functions of the scripts for the one-node cluster: kubectl, and the state of pods and processes."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scenarios"))
import asking  # noqa: E402 - found by the line above
from asking import INFER, INPUT, ROOT, SEVEN, Failure, Traffic, digit, expect, post, step, wait_until  # noqa: E402, F401

GATEWAY = "weir-gateway.weir-system.svc.cluster.local"
DOMAIN = "example.com"
DIGITS = "http://digits.default"
# Folder of the claim weir-examples on the node.
CLAIM = ROOT / "target/cluster/state/volumes/weir-examples"
# A request to a model of write_slow_model.
ROW = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 1], "data": [1]}]}).encode()


def kubectl(*arguments, stdin=None):
    done = subprocess.run(["kubectl", *arguments], input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def helm(*arguments):
    done = subprocess.run(["helm", *arguments], capture_output=True, text=True)
    expect(f"helm {arguments[0]}", 0, done.returncode and done.stderr)


def write_slow_model(folder, milliseconds):
    """Puts a model into the claim. It returns its input; a batch of at most four requests takes `milliseconds`."""
    (CLAIM / folder / "1").mkdir(parents=True, exist_ok=True)
    (CLAIM / folder / "config.pbtxt").write_text(f"""
        backend: "echo"
        max_batch_size: 4
        input [ {{ name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] }} ]
        output [ {{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] }} ]
        parameters {{ key: "service_time_ms" value {{ string_value: "{milliseconds}" }} }}
    """)


class Readiness:
    """Records the condition `Ready` of a service from now on, even while the API server is unreachable for a time."""

    def __init__(self, name):
        path = '{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].message}{"\\n"}'
        self.command = ["kubectl", "get", "inferenceservice", name, "--watch", "-o", f"jsonpath={path}"]
        self.seen, self.ended = [], threading.Event()
        self.watch = self.start()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self):
        return subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def run(self):
        while not self.ended.is_set():
            self.seen += [line.strip() for line in self.watch.stdout]
            self.watch.wait()
            if not self.ended.wait(1):
                self.watch = self.start()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        while self.thread.is_alive():
            self.watch.terminate()
            self.thread.join(timeout=1)


@contextlib.contextmanager
def unharmed(name, service, *requests, **more):
    """Sends requests all the time, none of which may fail, and checks that the service is ready all the time."""
    with step(name), Traffic(*requests, **more) as traffic, Readiness(service) as readiness:
        yield traffic
    expect("failed requests", [], traffic.failures[:5])
    expect("values of Ready other than True", [], [status for status in readiness.seen if not status.startswith("True")])
    print(f"           {sum(traffic.revisions.values())} requests, none failed", flush=True)


def service(path, name="digits"):
    return kubectl("get", "inferenceservice", name, "-o", f"jsonpath={path}")


def condition(name, kind="Ready"):
    return service(f'{{.status.conditions[?(@.type=="{kind}")].status}}', name)


def pods(name):
    """Returns the names of the service's pods that are not terminating."""
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


def gateways():
    return set(kubectl("get", "pods", "-n", "weir-system", "-l", "app.kubernetes.io/name=weir-gateway", "-o", "name").split())


def is_ready(pod):
    ready = '{.status.conditions[?(@.type=="Ready")].status}'
    return subprocess.run(["kubectl", "get", "pod", pod, "-o", f"jsonpath={ready}"], capture_output=True, text=True).stdout == "True"


def ready_pods(name="digits", part=""):
    """Returns the number of the service's ready pods whose names contain `part`."""
    return sum(is_ready(pod) for pod in pods(name) if part in pod)


def left(service="digits"):
    kinds = "deployments,replicasets,pods,services,endpointslices,controllerrevisions,configmaps,secrets"
    return [name for name in kubectl("get", kinds, "-o", "name").split() if service in name]


def restart_gateways():
    """Performs a rolling restart, and waits until the former gateways have ended."""
    former = gateways()
    kubectl("rollout", "restart", "deployment/weir-gateway", "-n", "weir-system")
    wait_until("no former gateway", 120, lambda: not gateways() & former)


def processes(*words):
    """Returns the processes of the cluster whose command lines contain these words."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes().decode().split("\0") if folder.name.isdigit() else []
            in_cluster = line and os.readlink(folder / "ns/pid") != os.readlink("/proc/self/ns/pid")
            if in_cluster and all(any(word in part for part in line) for word in words):
                found.append(int(folder.name))
    return found


def kill(*words, by=signal.SIGKILL):
    found = processes(*words)
    if not found:
        raise Failure(f"no process of {words}")
    os.kill(found[0], by)
    return found[0]


def explanation():
    parts = [
        ["kubectl", "get", "inferenceservices,deployments,pods,services", "-o", "wide"],
        ["kubectl", "describe", "inferenceservices"],
        ["kubectl", "logs", "-n", "weir-system", "-l", "app.kubernetes.io/part-of=weir", "--prefix", "--tail", "20"],
    ]
    return "\n".join(subprocess.run(part, capture_output=True, text=True).stdout for part in parts)


def run(name, parts):
    """Runs the parts on the cluster, after all services were deleted."""
    prepare = functools.partial(kubectl, "delete", "inferenceservice", "--all", "--timeout", "60s")
    asking.run(name, parts, prepare, explanation)
