"""What the scripts beside it do and see on the one-node cluster: kubectl, requests, and what becomes of them."""

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

ROOT = Path(__file__).resolve().parents[2]
GATEWAY = "weir-gateway.weir-system.svc.cluster.local"
DOMAIN = "example.com"
DIGITS = "http://digits.default"
INPUT = (ROOT / "examples/digits/inputs/digit-7-a.json").read_bytes()
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
    """What `Ready` of a service is from now on, also after an API server that was away."""

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


def gateways():
    return set(kubectl("get", "pods", "-n", "weir-system", "-l", "app.kubernetes.io/name=weir-gateway", "-o", "name").split())


def is_ready(pod):
    ready = '{.status.conditions[?(@.type=="Ready")].status}'
    return subprocess.run(["kubectl", "get", "pod", pod, "-o", f"jsonpath={ready}"], capture_output=True, text=True).stdout == "True"


def left():
    kinds = "deployments,replicasets,pods,services,endpointslices,controllerrevisions,configmaps,secrets"
    return [name for name in kubectl("get", kinds, "-o", "name").split() if "digits" in name]


def explanation():
    parts = [
        ["kubectl", "get", "inferenceservices,deployments,pods,services", "-o", "wide"],
        ["kubectl", "describe", "inferenceservices"],
        ["kubectl", "logs", "-n", "weir-system", "-l", "app.kubernetes.io/part-of=weir", "--prefix", "--tail", "20"],
    ]
    return "\n".join(subprocess.run(part, capture_output=True, text=True).stdout for part in parts)


def run(name, parts):
    """Runs the parts one after the other, or those that the command line names. The first that fails ends it, with all that helps
    to see why."""
    named = sys.argv[1:]
    parts = [part for part in parts if not named or part.__name__ in named]
    begun = time.monotonic()
    try:
        kubectl("delete", "inferenceservice", "--all", "--timeout", "60s")
        for part in parts:
            part()
    except Failure as failure:
        print(explanation(), file=sys.stderr)
        sys.exit(f"{name}: {failure}")
    print(f"{time.monotonic() - begun:7.2f} s  in all")
