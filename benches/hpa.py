#!/usr/bin/env python3
"""Compares Weir's control law with a HorizontalPodAutoscaler: make bench-hpa, half an hour.

Two services receive the same requests at the same times, those of a real trace. Weir sets the number of pods of one; an
HPA sets that of the other, by the metric and the target of docs/kubernetes.md. Both may have 3 to 20 pods, each of
which takes one request at a time and is ready some seconds after it was scheduled. The API server with its HPA
controller and scheduler (tests/kubernetes/bed), Weir's gateway, controller and autoscaler, the aggregated metrics API
and the requests are real. This script simulates the pods, and one server here answers for all of them. A GPU costs from
the moment it is occupied, so pods count from their scheduling to their end. Writes benches/results/hpa.json.
"""

import argparse
import csv
import http.client
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from concurrent import futures
from pathlib import Path

from kubernetes import client, config

from harness.record import machine, output, written

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/kubernetes"))
from model_server import ModelServer  # noqa: E402 - found by the line above
from pretend_node import NODE, PretendNode  # noqa: E402
from programs import Programs, apply, free_port  # noqa: E402
from weir import wait_until  # noqa: E402

TRACE = ROOT / "autoscaler/simulation/traces/azure-conv.csv"
RESULTS = ROOT / "benches/results/hpa.json"
NAMESPACE = "bench"
LEAST, MOST = 3, 20
REQUEST = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [21]}]}).encode()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/release/weir"))
    parser.add_argument("--commit", default=output("git", "rev-parse", "--short", "HEAD"), help="commit that the program was built from")
    parser.add_argument("--seconds", type=float, default=1500, help="duration of the used part of the trace")
    parser.add_argument("--settle", type=float, default=300, help="part of that time before `settled` is counted")
    parser.add_argument("--service-seconds", type=float, default=0.8, help="time of a request at a pod")
    parser.add_argument("--start-seconds", type=float, default=20, help="time from the scheduling of a pod until it is ready")
    parser.add_argument("--target", type=float, default=1.0, help="queue delay target in seconds")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def service(name, port, target, autoscaler_class):
    container = {"name": "kserve-container", "image": "example/server:1", "env": [{"name": "PROTOCOL", "value": "v2"}],
                 "ports": [{"containerPort": port}]}
    annotations = {"weir.dev/queue-delay-target": f"{target}s"}
    if autoscaler_class:
        annotations["serving.kserve.io/autoscalerClass"] = autoscaler_class
    return {
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"predictor": {"minReplicas": LEAST, "maxReplicas": MOST, "containerConcurrency": 1, "containers": [container],
                               "nodeSelector": {"kubernetes.io/hostname": NODE}}},
    }


def horizontal_pod_autoscaler(name):
    return {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": name},
            "minReplicas": LEAST, "maxReplicas": MOST,
            "metrics": [{"type": "Pods", "pods": {"metric": {"name": "nv_inference_queue_duration_us"},
                                                  "target": {"type": "AverageValue", "averageValue": "50000"}}}],
        },
    }


def metrics_api(port):
    """Returns the objects that lead the API server to the autoscaler's metrics API: among them a Service with this
    machine's address."""
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "weir-metrics", "namespace": "weir-system"},
         "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta2.custom.metrics.k8s.io"},
         "spec": {"group": "custom.metrics.k8s.io", "version": "v1beta2", "groupPriorityMinimum": 100, "versionPriority": 100,
                  "service": {"namespace": "weir-system", "name": "weir-metrics", "port": port}}},
    ]


class Clients:
    """Sends each request at its time, whether or not earlier ones have been answered, on one connection per request in
    flight."""

    def __init__(self, port):
        self.port, self.local = port, threading.local()
        self.pool = futures.ThreadPoolExecutor(512)

    def ask(self, name):
        """Returns the seconds until the response, or None if there was none."""
        connection = getattr(self.local, "connection", None) or http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        self.local.connection, begun = connection, time.monotonic()
        try:
            connection.request("POST", f"/serving/{NAMESPACE}/{name}/v2/models/{name}/infer", REQUEST, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            return time.monotonic() - begun if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            self.local.connection = None
            return None

    def play(self, offsets, names):
        """Sends the requests, and returns the answers of each service in the order of its requests."""
        begun, sent = time.monotonic(), {name: [] for name in names}
        for offset in offsets:
            time.sleep(max(0.0, begun + offset - time.monotonic()))
            for name in names:
                sent[name].append(self.pool.submit(self.ask, name))
        return {name: [one.result() for one in answers] for name, answers in sent.items()}


def trace(seconds):
    with TRACE.open() as lines:
        offsets = [float(row["t_s"]) for row in csv.DictReader(lines)]
    return [offset for offset in offsets if offset < seconds]


def waited(answers, args):
    """Returns the waits of the answered requests: the response time less the pod's service time, sorted."""
    return sorted(max(0.0, answer - args.service_seconds) for answer in answers if answer is not None)


def kept(node, name, answers, span, args):
    waits = waited(answers, args)
    pod_seconds = node.pod_seconds(name, *span)
    return {
        "requests": len(answers), "failed": answers.count(None),
        "attainment": sum(wait <= args.target for wait in waits) / len(answers),
        "wait_p50_s": statistics.median(waits), "wait_p99_s": waits[len(waits) * 99 // 100],
        "gpu_seconds": pod_seconds, "pods_mean": pod_seconds / (span[1] - span[0]), "pods_most": node.most(name, *span),
        "starts": node.starts(name, *span),
    }


def ready(core, name):
    pods = core.list_namespaced_pod(NAMESPACE, label_selector=f"serving.kserve.io/inferenceservice={name}").items
    return sum(any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or []) for pod in pods)


def is_active(scaler):
    found = client.AutoscalingV2Api().read_namespaced_horizontal_pod_autoscaler(scaler, NAMESPACE)
    return any(c.type == "ScalingActive" and c.status == "True" for c in found.status.conditions or [])


def measure(args, programs, node, core):
    metrics = free_port()
    serving, _ = programs.start_weir("--metrics-api", "custom", "--metrics-port", str(metrics))
    server = ModelServer(args.service_seconds)
    apply(*metrics_api(metrics))
    apply(service("law", server.port, args.target, None), service("hpa", server.port, args.target, "none"))
    for name in ("law", "hpa"):
        wait_until(f"{LEAST} pods of {name}", 120, lambda: ready(core, name) == LEAST)
    clients = Clients(serving)
    for name in ("law", "hpa"):
        wait_until(f"an answer of {name}", 60, lambda: clients.ask(name) is not None)
    applied = time.monotonic()
    apply(horizontal_pod_autoscaler("hpa"))
    wait_until("the HPA is ScalingActive", 120, lambda: is_active("hpa"))
    active = time.monotonic() - applied
    offsets = trace(args.seconds)
    print(f"{len(offsets)} requests to each, {args.seconds:.0f} s", file=sys.stderr, flush=True)
    first = time.monotonic()
    answers = clients.play(offsets, ("law", "hpa"))
    last = first + args.seconds
    settled = sum(offset < args.settle for offset in offsets)
    return {"hpa_active_after_s": active} | {
        name: {"whole": kept(node, name, own, (first, last), args),
               "settled": kept(node, name, own[settled:], (first + args.settle, last), args)}
        for name, own in answers.items()}


def main():
    args = arguments()
    os.environ["KUBECONFIG"] = os.environ["WEIR_TEST_KUBECONFIG"]
    config.load_kube_config(os.environ["KUBECONFIG"])
    core, load = client.CoreV1Api(), os.getloadavg()[0]
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    with tempfile.TemporaryDirectory(prefix="weir-hpa-") as folder, Programs(folder, args.program) as programs:
        with PretendNode(core, NAMESPACE, args.start_seconds) as node:
            try:
                result = measure(args, programs, node, core)
            except BaseException:
                print(*(f"{name}:\n{programs.log(name)[-3000:]}" for name in programs.running), sep="\n", file=sys.stderr)
                raise
    record = {"machine": machine(), "program": Path(args.program).parent.name, "commit": args.commit, "date": time.strftime("%Y-%m-%d"),
              "load_average_before": load, "load_average_after": os.getloadavg()[0],
              "trace": TRACE.name, "seconds": args.seconds, "settle_seconds": args.settle, "service_seconds": args.service_seconds,
              "start_seconds": args.start_seconds, "target_seconds": args.target, "pods": [LEAST, MOST], "result": result}
    args.out.write_text(written(record))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
