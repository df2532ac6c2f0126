#!/usr/bin/env python3
"""Measures the autoscaler with a thousand services and three gateways: make bench-autoscaler-scale, ten minutes.

It runs `weir controller` and `weir autoscaler` with a real API server and simulated nodes
(tests/kubernetes/bed/with-control-plane.sh). This script plays the gateways: three servers that send gateway reports
over the gateways' own protocol, each with all services, every second and at once when a request meets a service at
zero. It measures CPU time and memory while some of the services have load, and the time from a request's arrival to the
decision to wake its service: one by one, and 500 at once. Writes benches/results/autoscaler_scale.json.
"""

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from concurrent import futures
from datetime import datetime
from pathlib import Path

import grpc
from grpc_tools import protoc
from kubernetes import client, config

from harness.record import machine, output, written

ROOT = Path(__file__).resolve().parents[1]
GROUP, VERSION, PLURAL = "serving.kserve.io", "v1beta1", "inferenceservices"
NAMESPACES, GATEWAYS = 20, 3

# Requests per second at each gateway, for each service that has load.
RATE = 4
# Time of each request in the queue, and at a replica. Each is the index of a bucket in the report's histogram, and the
# time in microseconds.
WAIT, TIME = (60, 1_000), (130, 500_000)


def generated():
    """Returns the message types of reports, generated from the same definition as the programs'."""
    folder = tempfile.mkdtemp(prefix="weir-proto-")
    definition = ROOT / "cluster/reports/proto"
    if protoc.main(["", f"-I{definition}", f"--python_out={folder}", "weir/v1/reports.proto"]):
        raise SystemExit("the definition of reports cannot be compiled")
    sys.path.insert(0, folder)
    from weir.v1 import reports_pb2
    return reports_pb2


def service(number):
    return {
        "apiVersion": f"{GROUP}/{VERSION}", "kind": "InferenceService", "metadata": {"name": f"s{number}"},
        "spec": {"predictor": {"minReplicas": 0, "containers": [{"name": "kserve-container", "image": "example/server:1"}]}},
    }


def namespace(number):
    return f"bench-{number % NAMESPACES}"


class Gateway:
    """A gateway as seen by the autoscaler: a server of reports."""

    def __init__(self, messages, number, count, loaded):
        self.began, self.changed, self.loaded = time.monotonic(), threading.Condition(), loaded
        self.report = messages.Report(started=int(time.time()), routes=1)
        self.since = {}
        for service_number in range(count):
            self.report.revisions.add(namespace=namespace(service_number), name=f"s{service_number}-predictor-00001")
            activity = self.report.revisions[service_number].activity
            activity.arrivals = 0
            if service_number < loaded:
                for histogram, bucket in ((activity.queue_delay, WAIT[0]), (activity.service_time, TIME[0])):
                    histogram.first = bucket - 4
                    histogram.counts.extend([0] * 9)
        self.bytes, self.number = b"", 0
        self.server = grpc.server(futures.ThreadPoolExecutor(4))
        handler = grpc.unary_stream_rpc_method_handler(self.watch)
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("weir.v1.Reports", {"Watch": handler})])
        self.port = self.server.add_insecure_port("0.0.0.0:0")
        self.server.start()
        threading.Thread(target=self.run, args=(number / GATEWAYS,), daemon=True).start()

    def watch(self, _, context):
        seen = 0
        while context.is_active():
            with self.changed:
                self.changed.wait_for(lambda: self.number != seen, timeout=2)
                seen, report = self.number, self.bytes
            yield report

    def run(self, delay):
        time.sleep(delay)
        while True:
            with self.changed:
                for revision in self.report.revisions[:self.loaded]:
                    self.work(revision.activity)
                self.send()
            time.sleep(1)

    @staticmethod
    def work(activity):
        activity.arrivals += RATE
        activity.succeeded += RATE
        activity.in_flight, activity.credits = 1, 4
        for histogram, (_, us) in ((activity.queue_delay, WAIT), (activity.service_time, TIME)):
            histogram.counts[4] += RATE
            histogram.sum_us += RATE * us

    def send(self):
        now = time.monotonic()
        self.report.age_us = int((now - self.began) * 1e6)
        for number, since in self.since.items():
            self.report.revisions[number].activity.oldest_us = int((now - since) * 1e6)
        self.bytes = self.report.SerializeToString()
        self.number += 1
        self.changed.notify_all()

    def arrive(self, numbers):
        """Reports that a request for each of these services arrived and found it at zero."""
        with self.changed:
            for number in numbers:
                activity = self.report.revisions[number].activity
                activity.arrivals, activity.woken, activity.queued = activity.arrivals + 1, activity.woken + 1, 1
                self.since[number] = time.monotonic()
            self.send()

    def leave(self):
        """Reports that the clients of the queued requests have disconnected."""
        with self.changed:
            for number in self.since:
                activity = self.report.revisions[number].activity
                activity.queued = activity.oldest_us = 0
            self.since.clear()


class Process:
    """One of Weir's processes, with its admin port."""

    def __init__(self, program, component, log):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [program, component, "--address", "127.0.0.1", "--admin-port", str(self.port), "--name", f"bench-{component}"]
        self.log = open(log, "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def metric(self, name):
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30).read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.M))

    def peak_mib(self):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) / 1024

    def end(self):
        self.process.terminate()
        self.process.wait(30)


def publish(core, discovery, gateways):
    """Publishes the addresses of the gateways, as a Service of their pods would."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address = probe.getsockname()[0]
    for number, gateway in enumerate(gateways):
        discovery.create_namespaced_endpoint_slice("weir-system", {
            "metadata": {"name": f"weir-gateway-{number}", "labels": {"kubernetes.io/service-name": "weir-gateway"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True},
                           "targetRef": {"kind": "Pod", "name": f"gateway-{number}", "namespace": "weir-system"}}],
            "ports": [{"name": "http", "port": 1}, {"name": "admin", "port": gateway.port}],
        })


def wait(what, missing, seconds=300):
    """Waits until `missing` returns an empty list."""
    print(f"waiting: {what}", file=sys.stderr, flush=True)
    until = time.monotonic() + seconds
    while rest := missing():
        if time.monotonic() > until:
            raise SystemExit(f"{what}: not within {seconds} s, {len(rest)} missing, such as {rest[:5]}")
        time.sleep(0.25)


def deployments(apps):
    """Returns the number of replicas of each service, by the service's number."""
    found = apps.list_deployment_for_all_namespaces(resource_version="0").items
    return {int(one.metadata.name.split("-")[0][1:]): one.spec.replicas for one in found}


def without(apps, numbers, is_so):
    """Returns those of the services whose replicas do not satisfy `is_so`, with one call of the API server."""
    replicas = deployments(apps)
    return [number for number in numbers if number not in replicas or not is_so(replicas[number])]


def scalings(log):
    """Yields all decisions in the log that changed a replica count: time, service, and former number."""
    for line in re.sub(r"\x1b\[[0-9;]*m", "", Path(log).read_text()).splitlines():
        match = re.search(r"(\d{4}-\d\d-\d\dT[\d:.]+)Z.*scaling.*?/s(\d+)-predictor.*from=(\d+)\b", line)
        if match:
            yield datetime.fromisoformat(match.group(1) + "+00:00").timestamp(), int(match.group(2)), int(match.group(3))


def decisions(log, after):
    """Returns the time of the first decision after `after` for each service that was at zero."""
    found = {}
    for at, number, before in scalings(log):
        if at >= after and before == 0:
            found.setdefault(number, at)
    return found


def summary(times):
    times = sorted(time * 1e3 for time in times)
    return {"count": len(times), "p50_ms": statistics.median(times), "p99_ms": times[max(0, -(-len(times) * 99 // 100) - 1)],
            "longest_ms": times[-1]}


def wake(gateways, apps, log, numbers, gap):
    """Sends a request for each of these services, with a gap or all at once. Returns a summary of the times to the
    decisions."""
    came, groups = {}, [[number] for number in numbers] if gap else [numbers]
    begin = time.time() - 0.01
    for group in groups:
        threads = []
        for index, gateway in enumerate(gateways):
            own = [number for number in group if number % GATEWAYS == index]
            if own:
                came.update(dict.fromkeys(own, time.time()))
                threads.append(threading.Thread(target=gateway.arrive, args=(own,)))
                threads[-1].start()
        for thread in threads:
            thread.join()
        time.sleep(gap)
    wait("decisions", lambda: sorted(set(numbers) - decisions(log, begin).keys()), 60)
    found = decisions(log, begin)
    wait("replicas", lambda: without(apps, numbers, lambda replicas: replicas > 0), 120)
    written_in = time.time() - max(came.values())
    for gateway in gateways:
        gateway.leave()
    return summary(found[number] - came[number] for number in numbers) | {"all_written_s": written_in}


def asleep(apps, numbers):
    wait("all asleep", lambda: without(apps, numbers, lambda replicas: replicas == 0), 600)


def measure(args, program, apps, custom, core, discovery, folder):
    log = folder / "autoscaler.log"
    controller = Process(program, "controller", folder / "controller.log")
    running = [controller]
    try:
        for number in range(args.services):
            custom.create_namespaced_custom_object(GROUP, VERSION, namespace(number), PLURAL, service(number))
        wait("Deployments", lambda: without(apps, range(args.services), lambda replicas: replicas is not None), 900)
        messages = generated()
        gateways = [Gateway(messages, number, args.services, args.loaded) for number in range(GATEWAYS)]
        publish(core, discovery, gateways)
        autoscaler = Process(program, "autoscaler", log)
        running.append(autoscaler)
        idle = range(args.loaded, args.services)
        asleep(apps, idle)
        writes = Counter(number for _, number, _ in scalings(log) if number in idle)
        time.sleep(args.settle)
        before, begun = autoscaler.metric("process_cpu_seconds_total"), time.monotonic()
        time.sleep(args.seconds)
        used = (autoscaler.metric("process_cpu_seconds_total") - before) / (time.monotonic() - begun)
        one_by_one = wake(gateways, apps, log, idle[:args.one_by_one], 0.1)
        at_once = wake(gateways, apps, log, idle[args.one_by_one:args.one_by_one + args.at_once], 0)
        return {
            "services": args.services, "with_load": args.loaded, "gateways": GATEWAYS,
            "report_kib": len(gateways[0].bytes) / 1024,
            "processor_percent": used * 100,
            "memory_mib": autoscaler.metric("process_resident_memory_bytes") / 2**20, "memory_peak_mib": autoscaler.peak_mib(),
            "most_requests_to_end_an_idle_service": max(writes.values()),
            "wake_one_by_one": one_by_one, "wake_at_once": at_once,
        }
    except BaseException:
        print(log.read_text()[-3000:] if log.exists() else "", (folder / "controller.log").read_text()[-2000:], file=sys.stderr)
        raise
    finally:
        for process in running:
            process.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/release/weir"))
    parser.add_argument("--commit", default=output("git", "rev-parse", "--short", "HEAD"), help="commit that the program was built from")
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--loaded", type=int, default=200, help="number of services with constant load")
    parser.add_argument("--one-by-one", type=int, default=100, help="number of services that are woken one after the other")
    parser.add_argument("--at-once", type=int, default=500, help="number of services that are woken at the same time")
    parser.add_argument("--settle", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=60, help="duration of the CPU time measurement")
    parser.add_argument("--out", default=str(ROOT / "benches/results/autoscaler_scale.json"))
    args = parser.parse_args()
    if args.loaded + args.one_by_one + args.at_once > args.services:
        parser.error("--loaded, --one-by-one and --at-once are different services: all together no more than --services")
    os.environ["KUBECONFIG"] = os.environ["WEIR_TEST_KUBECONFIG"]
    config.load_kube_config(os.environ["KUBECONFIG"])
    core, apps, custom, discovery = client.CoreV1Api(), client.AppsV1Api(), client.CustomObjectsApi(), client.DiscoveryV1Api()
    for number in range(NAMESPACES):
        core.create_namespace({"metadata": {"name": namespace(number)}})
    core.create_namespace({"metadata": {"name": "weir-system"}})
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="weir-scale-") as folder:
        result = measure(args, args.program, apps, custom, core, discovery, Path(folder))
    record = {"machine": machine(), "program": Path(args.program).parent.name, "commit": args.commit,
              "date": time.strftime("%Y-%m-%d"), "load_average_before": load, "load_average_after": os.getloadavg()[0],
              "reports": "sent by this script over the gateways' own wire", "result": result}
    Path(args.out).write_text(written(record))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
