#!/usr/bin/env python3
"""Measures the controller with thousands of idle services: make bench-controller, ten minutes.

It runs `weir controller` with a real API server and simulated nodes (tests/kubernetes/bed/with-control-plane.sh),
creates services that sleep, and measures: the time from `kubectl apply` of another service to its Deployment, the time
from a restart to ready, CPU time and memory, and requests to the API server while nothing happens. Writes
benches/results/controller.json.
"""

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from kubernetes import client, config

ROOT = Path(__file__).resolve().parents[1]
ADMIN = "http://127.0.0.1:19091"
GROUP, VERSION, PLURAL = "serving.kserve.io", "v1beta1", "inferenceservices"
NAMESPACES = 20
# Events are not counted: the scheduler and Kubernetes' own controllers write theirs for minutes after thousands of pods
# were created, and Weir's controller writes none for services that sleep.
KINDS = ("inferenceservices", "deployments", "services", "controllerrevisions")


def service(name):
    """Returns a service for which the controller creates all objects, and whose pods need no resources."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"predictor": {"minReplicas": 0, "containers": [{"name": "kserve-container", "image": "example/server:1"}]}},
    }


def namespace(number):
    return f"bench-{number % NAMESPACES}"


class Controller:
    """A running controller of the release build."""

    def __init__(self, program):
        command = [program, "controller", "--address", "127.0.0.1", "--admin-port", "19091", "--name", "bench"]
        self.begun = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_ready(self):
        while True:
            try:
                if urllib.request.urlopen(f"{ADMIN}/ready", timeout=5).status == 200:
                    return time.monotonic() - self.begun
            except OSError:
                time.sleep(0.02)

    def metric(self, name):
        page = urllib.request.urlopen(f"{ADMIN}/metrics", timeout=30).read().decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.M)
        return sum(map(float, found))

    def usage(self):
        return {"cpu_s": round(self.metric("process_cpu_seconds_total"), 2),
                "rss_mib": round(self.metric("process_resident_memory_bytes") / 2**20, 1)}

    def end(self):
        self.process.terminate()
        self.process.wait(30)


def create_all(api, numbers):
    for number in numbers:
        api.create_namespaced_custom_object(GROUP, VERSION, namespace(number), PLURAL, service(f"s{number}"))


def wait_planned(api, count, seconds=120):
    """Waits until `count` Deployments exist (the cluster has no others). Fails if their number does not grow for
    `seconds`."""
    last, until = 0, time.monotonic() + seconds
    while True:
        # The list has no selector: with one, the API server does not report the number of remaining objects.
        found = api.list_deployment_for_all_namespaces(limit=1)
        total = len(found.items) + (found.metadata.remaining_item_count or 0)
        if total >= count:
            return
        if total > last:
            last, until = total, time.monotonic() + seconds
        if time.monotonic() > until:
            raise SystemExit(f"{total} of {count} Deployments, and no more for {seconds} s")
        time.sleep(0.2)


def latencies(custom, apps, first, count):
    """Returns the times from the creation of a service to that of its Deployment, one service after the other."""
    times = []
    for number in range(first, first + count):
        begun = time.monotonic()
        custom.create_namespaced_custom_object(GROUP, VERSION, namespace(number), PLURAL, service(f"s{number}"))
        while True:
            try:
                apps.read_namespaced_deployment(f"s{number}-predictor-00001", namespace(number))
                break
            except client.ApiException as error:
                if error.status != 404:
                    raise
                time.sleep(0.002)
        times.append((time.monotonic() - begun) * 1e3)
    times.sort()
    return {"p50_ms": round(statistics.median(times), 1), "p99_ms": round(times[int(len(times) * 0.99) - 1], 1), "count": count}


def requests():
    """Returns the numbers of requests for the objects of services, as counted by the API server, by object and verb."""
    page = subprocess.run(["kubectl", "get", "--raw", "/metrics"], capture_output=True, text=True, check=True).stdout
    sums = {}
    for kind, verb, count in re.findall(r'^apiserver_request_total\{.*?resource="([^"]*)".*?verb="([^"]*)".*\} (\S+)$', page, re.M):
        if kind in KINDS and verb != "WATCH":
            sums[f"{verb} {kind}"] = sums.get(f"{verb} {kind}", 0) + float(count)
    return sums


def measure(controller, program, custom, apps, known, count):
    controller.wait_ready()
    first = requests()
    begun = time.monotonic()
    create_all(custom, range(known, count))
    wait_planned(apps, count)
    made = time.monotonic() - begun
    time.sleep(20)
    before, used = requests(), controller.usage()
    per_service = {what: round((before[what] - first.get(what, 0)) / (count - known), 1) for what in before}
    time.sleep(30)
    after, idle = requests(), controller.usage()
    steady = {what: after[what] - before.get(what, 0) for what in after if after[what] != before.get(what, 0)}
    applied = latencies(custom, apps, count, 100)
    controller.end()
    again = Controller(program)
    ready = again.wait_ready()
    time.sleep(30)
    result = {
        "services": count,
        "made_per_s": round((count - known) / made, 1),
        "requests_per_service": {what: number for what, number in sorted(per_service.items()) if number > 0},
        "apply_to_deployment": applied,
        "restart_to_ready_s": round(ready, 2),
        "idle_cpu_percent": round((idle["cpu_s"] - used["cpu_s"]) / 30 * 100, 2),
        "rss_mib": idle["rss_mib"],
        "after_restart": again.usage(),
        "requests_in_30_s_of_rest": steady,
    }
    again.end()
    print(json.dumps(result), flush=True)
    return result, count + 100


def measured(program, custom, apps, known, count):
    """Measures one number of services, and stops the controller in any case."""
    controller = Controller(program)
    try:
        return measure(controller, program, custom, apps, known, count)
    finally:
        if controller.process.poll() is None:
            controller.process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/release/weir"))
    parser.add_argument("--services", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--out", default=str(ROOT / "benches/results/controller.json"))
    arguments = parser.parse_args()
    os.environ["KUBECONFIG"] = os.environ["WEIR_TEST_KUBECONFIG"]
    config.load_kube_config(os.environ["KUBECONFIG"])
    core, apps, custom = client.CoreV1Api(), client.AppsV1Api(), client.CustomObjectsApi()
    for number in range(NAMESPACES):
        core.create_namespace({"metadata": {"name": namespace(number)}})
    core.create_namespace({"metadata": {"name": "weir-system"}})
    results, known = [], 0
    for count in arguments.services:
        result, known = measured(arguments.program, custom, apps, known, count)
        results.append(result)
        load = round(os.getloadavg()[2], 1)
        report = {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "load_average_15_min": load,
                  "date": time.strftime("%Y-%m-%d"), "results": results}
        Path(arguments.out).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
