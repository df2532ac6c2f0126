"""Faults on the one-node cluster that must not fail a request or change the condition Ready (killed processes, an
unreachable API server), and scaling under load. To be run as root in the cluster's network, after weir-up.sh:

    target/cluster/exec .venv/bin/python tests/kubernetes/faults.py
"""

import concurrent.futures
import json
import os
import signal
import threading
import time

from weir import (
    DIGITS, INFER, ROOT, ROW, condition, expect, kill, kubectl, left, pods, post, ready_pods, run, step, unharmed, wait_until,
    write_slow_model,
)

# Seconds for which the API server is unreachable.
AWAY = 60

# Milliseconds for which a replica of the slow model works on its batch of at most four requests.
SLOW = 200
SENDERS = 48
DIGITS_INFER = f"{DIGITS}{INFER}"


def two_pods_of_digits():
    kubectl("apply", "-f", str(ROOT / "examples/digits"))
    kubectl("scale", "inferenceservice/digits", "--replicas", "2")
    wait_until("two pods", 60, lambda: ready_pods() == 2)
    wait_until("Ready", 60, lambda: condition("digits") == "True")


def a_model_server_is_killed():
    with unharmed("kill -9 of a model server, until it is ready again", "digits", DIGITS_INFER) as traffic:
        wait_until("some answers", 20, lambda: sum(traffic.revisions.values()) > 20)
        kill("weir-runtime", "--model-name=digits")
        wait_until("one pod less", 20, lambda: ready_pods() == 1)
        wait_until("two pods again", 60, lambda: ready_pods() == 2)


def the_controller_is_killed():
    with unharmed("kill -9 of the controller; it follows a change afterwards", "digits", DIGITS_INFER):
        kill("/opt/weir/bin/weir", "controller")
        kubectl("scale", "inferenceservice/digits", "--replicas", "1")
        wait_until("one pod", 120, lambda: len(pods("digits")) == 1)


def the_autoscaler_is_killed():
    with unharmed("kill -9 of the autoscaler; it follows a change afterwards", "digits", DIGITS_INFER):
        kill("/opt/weir/bin/weir", "autoscaler")
        kubectl("scale", "inferenceservice/digits", "--replicas", "2")
        wait_until("two pods", 120, lambda: ready_pods() == 2)


def the_api_server_is_away():
    with unharmed(f"an API server that does not answer for {AWAY} s", "digits", DIGITS_INFER):
        server = kill("kube-apiserver", by=signal.SIGSTOP)
        try:
            time.sleep(AWAY)
        finally:
            os.kill(server, signal.SIGCONT)
        wait_until("the API server answers", 30, lambda: kubectl("get", "--raw", "/readyz") == "ok")
        # The traffic goes on while the controllers catch up; no request may fail meanwhile.
        time.sleep(10)
    expect("pods", 2, ready_pods())


def load_makes_three_pods():
    write_slow_model("slow", SLOW)
    spec = {"minReplicas": 0, "maxReplicas": 3, "model": {
        "modelFormat": {"name": "echo"}, "protocolVersion": "v2", "storageUri": "pvc://weir-examples/slow",
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
    }}
    body = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "slow"}, "spec": {"predictor": spec}}
    kubectl("apply", "-f", "-", stdin=json.dumps(body))
    kubectl("wait", "--for", "condition=Ready", "inferenceservice/slow", "--timeout", "60s")
    url = "http://slow.default/v2/models/slow/infer"
    enough = threading.Event()
    with step("load that one pod cannot handle, until three pods handle it"), concurrent.futures.ThreadPoolExecutor(SENDERS) as senders:
        sent = [senders.submit(send_until, enough, url) for _ in range(SENDERS)]
        try:
            wait_until("three pods", 90, lambda: ready_pods("slow") == 3)
        finally:
            enough.set()
    expect("failed requests", [], [str(job.exception()) for job in sent if job.exception()][:5])


def send_until(enough, url):
    while not enough.is_set():
        post(url, ROW)


def leave():
    kubectl("delete", "inferenceservice", "--all", "--timeout", "60s")
    wait_until("everything is deleted", 60, lambda: not left())


if __name__ == "__main__":
    run("faults", (
        two_pods_of_digits, a_model_server_is_killed, the_controller_is_killed, the_autoscaler_is_killed, the_api_server_is_away,
        leave, load_makes_three_pods, leave,
    ))
