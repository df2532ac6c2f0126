#!/usr/bin/env python3
"""Measures scaling on this machine and compares it with the prediction of `weir simulate`: make bench-local-wave, ten
minutes.

It runs `weir up` with a TorchScript model whose batches take a fixed number of matrix products and some more for each
request. It sends requests at random times at a rate that goes 0 -> RATE -> 0, and measures: the share of requests
within the delay target, in total and after the first start of each wave; the time until a wake-up is decided; the seconds
that replicas existed. Then it replays the same log with `weir simulate`, with the service times and the start time that
the running service reports. Writes benches/results/local_wave.json.
"""

import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
import zipfile
from pathlib import Path

from harness.record import machine, output, written

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benches" / "results" / "local_wave.json"
BODY = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}).encode()

# A test's model with other code: matrix products, whose number sets the time of a batch.
TEMPLATE = ROOT / "tests" / "models" / "repository" / "add_sub" / "1" / "model.pt"
CODE = """class AddSub(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(self: __torch__.AddSub,
    INPUT0: Tensor) -> Tensor:
    a = torch.ones([128, 128])
    b = a
    for i in range({fixed}):
      b = torch.mul(torch.mm(b, a), 0.001)
    for i in range(torch.mul(torch.size(INPUT0, 0), {each})):
      b = torch.mul(torch.mm(b, a), 0.001)
    return torch.add(torch.mul(INPUT0, 2), torch.mul(torch.sum(b), 0))
"""
CONFIG = """name: "burn"
platform: "pytorch_libtorch"
max_batch_size: {batch}
input [ {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }} ]
dynamic_batching {{ }}
"""
SERVICE = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: burn
  annotations:
    weir.dev/queue-delay-target: {target}s
    autoscaling.knative.dev/scale-to-zero-pod-retention-period: {retention}s
spec:
  predictor:
    minReplicas: 0
    maxReplicas: {most}
    model:
      modelFormat: {{name: pytorch}}
      protocolVersion: v2
      storageUri: file://{model}
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=ROOT / "target/release", help="folder with weir and weir-runtime")
    parser.add_argument("--rate", type=float, default=8.0, help="requests per second while a wave is high")
    parser.add_argument("--high", type=float, default=90.0, help="seconds for which a wave is high")
    parser.add_argument("--low", type=float, default=60.0, help="seconds without requests after each wave")
    parser.add_argument("--waves", type=int, default=3)
    parser.add_argument("--fixed", type=int, default=600, help="matrix products of every batch")
    parser.add_argument("--each", type=int, default=150, help="matrix products that each request adds")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--target", type=float, default=2.0, help="queue delay target in seconds")
    parser.add_argument("--retention", type=float, default=15.0, help="seconds without requests until the last replica stops")
    parser.add_argument("--most", type=int, default=4, help="maximum number of replicas")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def make_service(folder, args):
    model = folder / "models" / "burn"
    (model / "1").mkdir(parents=True)
    with zipfile.ZipFile(TEMPLATE) as template, zipfile.ZipFile(model / "1" / "model.pt", "w") as made:
        for entry in template.infolist():
            is_code = entry.filename.endswith("__torch__.py")
            made.writestr(entry.filename, CODE.format(fixed=args.fixed, each=args.each) if is_code else template.read(entry))
    (model / "config.pbtxt").write_text(CONFIG.format(batch=args.batch))
    file = folder / "burn.yaml"
    file.write_text(SERVICE.format(target=args.target, retention=args.retention, most=args.most, model=model))
    return file


class Platform:
    """A `weir up` that runs the service."""

    def __init__(self, programs, folder, file):
        self.weir, self.state = str(programs / "weir"), folder / "state"
        command = [self.weir, "up", "-v", "-f", file, "--port", "0", "--admin-port", "0", "--state-dir", self.state,
                   "--runtime", programs / "weir-runtime"]
        self.log = folder / "up.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        found = self.state / "admin.json"
        while not found.exists():
            if self.process.poll() is not None:
                raise SystemExit(self.log.read_text())
            time.sleep(0.05)
        addresses = json.loads(found.read_text())
        self.admin, self.model = f"http://{addresses['admin']}", f"http://{addresses['serving']}/v2/models/burn"

    def revision(self):
        with urllib.request.urlopen(f"{self.admin}/status", timeout=30) as answer:
            return (json.load(answer)["services"][0]["revisions"] or [{"wanted": None, "ready": None}])[0]

    def metrics(self):
        with urllib.request.urlopen(f"{self.admin}/metrics", timeout=30) as answer:
            return answer.read().decode()

    def wait_asleep(self):
        while True:
            revision = self.revision()
            if (revision["wanted"], revision["ready"]) == (0, 0):
                return
            time.sleep(0.2)

    def end(self):
        self.process.terminate()
        self.process.wait(90)


class Watch(threading.Thread):
    """Adds up the seconds for which replicas exist or are wanted, as the simulation does, from the status page."""

    def __init__(self, platform):
        super().__init__(daemon=True)
        self.platform, self.points, self.stop = platform, [], threading.Event()

    def run(self):
        while not self.stop.wait(0.1):
            revision = self.platform.revision()
            self.points.append((time.time(), revision["wanted"], revision["ready"]))

    def seconds(self, first, last):
        points = [point for point in self.points if first <= point[0] <= last]
        return sum((after[0] - before[0]) * max(before[1], before[2]) for before, after in zip(points, points[1:]))


def arrivals(args):
    """Returns the offsets of requests at random times while the wave is high."""
    chance, offsets = random.Random(args.seed), []
    for wave in range(args.waves):
        at = begin = wave * (args.high + args.low)
        while (at := at + chance.expovariate(args.rate)) < begin + args.high:
            offsets.append(at)
    return offsets


def ask(url):
    begun = time.time()
    request = urllib.request.Request(f"{url}/infer", BODY, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            waited = re.search(r"queue;dur=([\d.]+)", answer.headers.get("server-timing", ""))
            return begun, time.time() - begun, float(waited.group(1)) / 1e3 if waited else None, answer.status
    except OSError as error:
        return begun, time.time() - begun, None, str(error)


def send(url, offsets):
    """Sends each request at its time, whether or not earlier ones have been answered."""
    with concurrent.futures.ThreadPoolExecutor(256) as pool:
        first, answers = time.time(), []
        for offset in offsets:
            time.sleep(max(0.0, first + offset - time.time()))
            answers.append(pool.submit(ask, url))
        return first, [answer.result() for answer in answers]


def kept(answers, target, offsets, args):
    """Returns the share of requests within the target, in total and from the time when the first replica of a wave was
    ready."""
    waits = [(offset, answer[2]) for offset, answer in zip(offsets, answers)]
    in_time = [wait <= target for _, wait in waits]
    after = []
    for wave in range(args.waves):
        begin = wave * (args.high + args.low)
        own = [(offset, wait) for offset, wait in waits if begin <= offset < begin + args.high]
        # The first answered request waited for the start, and so did the requests that arrived until then.
        started = own[0][0] + own[0][1]
        after += [wait <= target for offset, wait in own if offset > started]
    return sum(in_time) / len(in_time), sum(after) / len(after)


def simulated(platform, log, file, args):
    command = [platform.weir, "simulate", log, "-f", file, "--url", platform.model, "--state-dir", platform.state, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def load_for_statistics(platform, count):
    """Sends requests one at a time and many at once, so that batches of several sizes are measured."""
    for _ in range(count):
        ask(platform.model)
    for at_once in (2, 3, 4, 8, 16):
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            list(pool.map(ask, [platform.model] * at_once))


def wake_times(page):
    value = lambda name: float(re.search(rf"^weir_autoscaler_wake_seconds_{name} (\S+)$", page, re.M).group(1))
    buckets = re.findall(r'^weir_autoscaler_wake_seconds_bucket\{le="([^"]+)"\} (\d+)$', page, re.M)
    longest = next(bound for bound, count in buckets if float(count) >= value("count"))
    return {"decisions": int(value("count")), "mean_ms": value("sum") / max(1, value("count")) * 1e3, "all_within_s": longest}


def measure(args, folder):
    file = make_service(folder, args)
    platform = Platform(args.programs, folder, file)
    try:
        platform.wait_asleep()
        before = platform.revision()["cold_start_ms"]
        watch = Watch(platform)
        watch.start()
        offsets = arrivals(args)
        first, answers = send(platform.model, offsets)
        platform.wait_asleep()
        last = time.time()
        watch.stop.set()
        page = platform.metrics()
        load_for_statistics(platform, 5)
        log = folder / "requests.csv"
        log.write_text("time\n" + "".join(f"{answer[0]:.6f}\n" for answer in answers))
        foretold = simulated(platform, log, file, args)
        whole, after = kept(answers, args.target, offsets, args)
        real = watch.seconds(first, last)
        policy = foretold["policies"][0]
        return {
            "requests": len(answers),
            "failed": sum(answer[3] != 200 for answer in answers),
            "attainment": whole,
            "attainment_after_the_first_start": after,
            "wake_decisions": wake_times(page),
            "most_replicas": max(point[1] for point in watch.points),
            "replica_seconds": real,
            "simulated": {
                "replica_seconds": policy["gpuSeconds"], "attainment": policy["attainment"], "most_replicas": policy["peak"],
                "cold_start_s": foretold["coldStartSeconds"], "replica_requests_per_s": foretold["replicaRequestsPerSecond"],
            },
            "simulated_over_real": policy["gpuSeconds"] / real,
            "cold_start_before_ms": before,
        }
    except BaseException:
        print(platform.log.read_text()[-4000:])
        raise
    finally:
        platform.end()


def main():
    args = arguments()
    folder = Path(tempfile.mkdtemp(prefix="weir-wave-"))
    load = os.getloadavg()[0]
    try:
        result = measure(args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    wave = {name: value for name, value in vars(args).items() if name not in ("programs", "out")}
    record = {"machine": machine(), "programs": args.programs.name, "commit": output("git", "rev-parse", "--short", "HEAD"),
              "date": time.strftime("%Y-%m-%d"), "load_average_before": load, "load_average_after": os.getloadavg()[0],
              "wave": wave, "result": result}
    args.out.write_text(written(record))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
