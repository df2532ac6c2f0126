#!/usr/bin/env python3
"""Measures how hostile clients affect well-behaved ones: `make bench-hostile`.

For each attack, on all ports that speak its protocol at once: the peak of the program's memory, and how eight
well-behaved clients of each port are served meanwhile. This is compared with the time before, and with the same attack
on another program of this machine, which takes as much CPU but nothing else from the measured program. Writes
benches/results/security.json and the table of docs/security.md. With `--access`, gateways with access control are attacked,
by a client with a key of its own and by one without; further attacks are on access control itself: guessed keys, hostile
tokens and issuers, and ten thousand clients.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from harness import attacks, neighbours
from harness.paths import ROOT, SECURITY_PAGE, SECURITY_RESULTS
from harness.record import machine, written
from harness.servers import free_ports

sys.path.insert(0, str(ROOT / "tests" / "clients"))

from issuer import Issuers  # noqa: E402

MIB = 1 << 20
MODELS = ROOT / "tests" / "models" / "repository"
# Host of the service behind the gateway.
HOST = "models.tests"
# Byte limit on request bodies: small, so that other memory is visible.
BUDGET = 64 * MIB
LIMITS = ["--max-inflight-bytes", str(BUDGET), "--max-connections", "1000"]
# Bytes that docs/flags.md promises for a connection, and for an HTTP/2 request in flight.
CONNECTION, STREAM = 256 * 1024, 32 * 1024
# A doubled response time only counts above this value; below it, the noise of the machine is larger.
NOISE_MS = 20.0
READY_WITHIN = 60.0
# Largest page of metrics, however many clients were refused.
METRICS = MIB
# Names of clients that have tokens.
NAMES = 10_000
# Names of gateways with access control.
GUARDED = ("gateway with access, attacker with a key", "gateway with access, attacker without a key")

MANIFEST = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": "models", "namespace": "tests"},
}


class Program:
    """A running program, as a context manager that stops it."""

    def __init__(self, name: str, command: list, log: Path, ports: dict, http: int, keys: dict = {}):
        self.name, self.ports, self.http, self.keys = name, ports, http, keys
        self.process = subprocess.Popen(command, stdout=log.open("wb"), stderr=subprocess.STDOUT)

    def __enter__(self) -> "Program":
        begun = time.monotonic()
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() - begun > READY_WITHIN:
                raise SystemExit(f"{self.name} did not become ready")
            time.sleep(0.1)
        return self

    def __exit__(self, *_) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def is_ready(self) -> bool:
        url = f"http://127.0.0.1:{self.http}/v2/models/add_sub/ready"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers={"Host": HOST, "x-api-key": self.keys.get("good", "")}), timeout=5):
                return True
        except OSError:
            return False

    def metrics(self) -> int:
        """Returns the size of the page of metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['admin']}/metrics", timeout=20) as answer:
            return len(answer.read())

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def memory(self, field: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def runtime_command(program: Path, http, grpc, metrics) -> list:
    ports = ["--http-port", str(http), "--grpc-port", str(grpc), "--metrics-port", str(metrics)]
    addresses = [f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")]
    models = ["--model-repository", str(MODELS), "--model-control-mode=explicit", "--load-model=add_sub"]
    return [str(program), *models, *addresses, *ports, "--device=cpu"]


def runtime(folder: Path, programs: Path) -> Program:
    http, grpc, metrics = free_ports(3)
    command = [*runtime_command(programs / "weir-runtime", http, grpc, metrics), *LIMITS]
    ports = {"http": http, "grpc": grpc, "admin": metrics}
    return Program("weir-runtime", command, folder / "runtime.log", ports, http)


def gateway(folder: Path, programs: Path, name: str = "weir gateway", keys: dict = {}, access: list = []) -> Program:
    port, admin, metrics = free_ports(3)
    inner = ["env", *runtime_command(programs / "weir-runtime", "$(PORT)", "$(GRPC_PORT)", metrics)]
    container = {"name": "kserve-container", "command": inner}
    predictor = {"minReplicas": 1, "maxReplicas": 1, "containerConcurrency": 1000, "containers": [container]}
    file = folder / "models.yaml"
    file.write_text(json.dumps({**MANIFEST, "spec": {"predictor": predictor}}))
    command = [str(programs / "weir"), "up", "-f", str(file), "--port", str(port), "--admin-port", str(admin),
               "--state-dir", str(folder / "state"), *LIMITS, *access]
    ports = {"http": port, "grpc": port, "admin": admin}
    return Program(name, command, folder / "gateway.log", ports, port, keys)


def guarded(folder: Path, programs: Path, name: str, attacker: bool) -> Program:
    """A gateway with access control, whose attacker may have a key too."""
    file, rules = folder / "keys.yaml", folder / "rules.yaml"
    operations = ["infer", "metadata", "control", "pin"]
    allowed = [{"clients": ["good", "attacker"], "services": ["*"], "operations": operations},
               {"clients": ["good:*"], "services": ["*"], "operations": ["metadata"]}]
    rules.write_text(json.dumps({"rules": allowed, "issuers": attacks.issuers.settings()}))
    create = [str(programs / "weir"), "key", "create", "--file", str(file), "--client"]
    keys = {client: subprocess.check_output([*create, client], text=True).strip() for client in ("good", "attacker")}
    keys = keys if attacker else {"good": keys["good"]}
    return gateway(folder, programs, name, keys, ["--access-file", str(file), "--access-file", str(rules)])


def with_a_key(folder: Path, programs: Path) -> Program:
    return guarded(folder, programs, GUARDED[0], attacker=True)


def without_a_key(folder: Path, programs: Path) -> Program:
    return guarded(folder, programs, GUARDED[1], attacker=False)


def good_clients(program: Program) -> dict:
    """Returns the protocols of the well-behaved clients, by port."""
    wires = {}
    for wire in ("http", "grpc"):
        wires.setdefault(program.ports[wire], []).append(wire)
    return wires


def served(program: Program, seconds: float):
    """Starts well-behaved clients on each port. Returns a function that waits for them and returns how they were
    served."""
    begun = [neighbours.start(port, HOST, wires, seconds, program.keys.get("good")) for port, wires in good_clients(program).items()]
    return lambda: neighbours.together([result() for result in begun])


def attacked(target: Program, attack: attacks.Attack, program: Program, seconds: float) -> dict:
    """Returns how well-behaved clients of a program are served while a target is attacked on all ports that speak the
    attack's protocol."""
    hostile = [attacks.start(attack, target.ports[wire], HOST, seconds, target.keys.get("attacker")) for wire in attack.wires]
    beside = served(program, seconds)()
    for process in hostile:
        process.join(10)
        process.kill()
    return beside


def measure(program: Program, other: Program, attack: attacks.Attack, seconds: float) -> dict:
    """Measures one attack: first without it, then with the attack on another program, then on this one."""
    before = served(program, max(3.0, seconds / 6))()
    elsewhere = attacked(other, attack, program, max(3.0, seconds / 3))
    idle = program.memory("VmRSS")
    program.forget_peak()
    beside = attacked(program, attack, program, seconds)
    peak = program.memory("VmHWM")
    connections = attack.connections * len(attack.wires)
    allowed = idle + 2 * BUDGET + connections * CONNECTION + 4000 * STREAM
    point = {"attack": attack.name, "program": program.name, "ports": list(attack.wires), "connections": connections, "seconds": seconds,
             "idle_mib": idle / MIB, "peak_mib": peak / MIB, "bound_mib": allowed / MIB,
             "p99_before_ms": before["p99_ms"], "p99_elsewhere_ms": elsewhere["p99_ms"], "p99_ms": beside["p99_ms"],
             "metrics_kib": program.metrics() / 1024, "requests": beside["requests"], "failed": beside["failed"], "first_failure": beside["first_failure"]}
    point["kept"] = is_kept(point)
    print(line(point), flush=True)
    return point


def is_kept(point: dict) -> bool:
    """Returns true if memory stayed below the bound, no request failed, and none took more than twice as long as during
    an attack on another program."""
    slow = max(2 * (point["p99_elsewhere_ms"] or 0.0), NOISE_MS)
    is_small = point["peak_mib"] <= point["bound_mib"] and point["metrics_kib"] <= METRICS / 1024
    return is_small and point["failed"] == 0 and (point["p99_ms"] or slow + 1) <= slow


def p99s(point: dict) -> str:
    parts = [point["p99_before_ms"], point.get("p99_elsewhere_ms"), point["p99_ms"]]
    return " · ".join("?" if part is None else f"{part:.1f}" for part in parts)


def line(point: dict) -> str:
    return (f"{point['program']:13} {','.join(point['ports']):15} {point['attack']:42} {point['idle_mib']:6.0f} → {point['peak_mib']:6.0f} MiB"
            f" (of {point['bound_mib']:.0f})  p99 {p99s(point)} ms"
            f"  {point['failed']} of {point['requests']} failed{'' if point['kept'] else '  BROKEN'}"
            f"{' ' + point['first_failure'] if point['first_failure'] else ''}")


def table(points: list) -> str:
    """Returns the table for the page."""
    rows = ["| attack | program, ports | s | memory idle → peak (bound), MiB | p99 idle · attack elsewhere · here, ms | failed |", "|---|---|---:|---|---|---|"]
    for point in points:
        rows.append(f"| {point['attack']} | {point['program']}: {', '.join(point['ports'])} | {point['seconds']:.0f} | "
                    f"{point['idle_mib']:.0f} → {point['peak_mib']:.0f} ({point['bound_mib']:.0f}) | "
                    f"{p99s(point)} | {point['failed']} of {point['requests']} |")
    return "\n".join(rows)


def caption(result: dict) -> str:
    return (f"Each attack on all its ports at once, with {result['profile']} programs on {result['machine']['cores']} cores, on which "
            f"{result['others_busy']:.0f} other threads ran:\n\n")


def with_others(points: list) -> list:
    """Returns these points merged into the recorded ones: points of the same attack and program are replaced, and the
    order is kept."""
    former = json.loads(SECURITY_RESULTS.read_text()) if SECURITY_RESULTS.exists() else {"points": []}
    recorded = [{"seconds": former["seconds"], **point} for point in former["points"]]
    name = lambda point: (point["attack"], point["program"])  # noqa: E731
    every = [*attacks.ATTACKS, *attacks.ON_ACCESS]
    known = {(attack.name, program) for attack in every for program in ("weir-runtime", "weir gateway", *GUARDED)}
    all_points = {name(point): point for point in recorded if name(point) in known}
    all_points.update((name(point), point) for point in points)
    return list(all_points.values())


def update_page(result: dict) -> None:
    begin, end = "<!-- measured -->\n", "<!-- end -->"
    before, rest = SECURITY_PAGE.read_text().split(begin)
    _, after = rest.split(end)
    SECURITY_PAGE.write_text(f"{before}{begin}{caption(result)}{table(result['points'])}\n{end}{after}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of each attack")
    parser.add_argument("--programs", type=Path, default=ROOT / "target" / "release", help="folder with weir and weir-runtime")
    parser.add_argument("--only", default="", help="only attacks whose names contain this text; the others keep their rows")
    parser.add_argument("--program", default="", help="only programs whose names contain this text")
    parser.add_argument("--access", action="store_true", help="attack gateways with access control instead")
    parser.add_argument("--dry", action="store_true", help="write no results")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if args.access:
        attacks.issuers = Issuers()
        attacks.names = [attacks.issuers.token(f"n{number}") for number in range(NAMES)]
    possible = [*attacks.ATTACKS, *attacks.ON_ACCESS] if args.access else attacks.ATTACKS
    chosen = [attack for attack in possible if args.only in attack.name]
    points, others = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        for start in (with_a_key, without_a_key) if args.access else (runtime, gateway):
            own, others_own = (Path(tempfile.mkdtemp(dir=folder)) for _ in range(2))
            with start(own, args.programs) as program, start(others_own, args.programs) as other:
                if args.program not in program.name:
                    continue
                served(program, 5.0)()
                points += [measure(program, other, attack, args.seconds) for attack in chosen]
    if not args.dry:
        profile = args.programs.name
        result = {"machine": machine(), "profile": profile, "seconds": args.seconds, "clients": neighbours.CLIENTS,
                  "budget_mib": BUDGET / MIB, "others_busy": others, "points": with_others(points)}
        SECURITY_RESULTS.write_text(written(result))
        update_page(result)
    broken = [point for point in points if not point["kept"]]
    print(f"{len(points)} measurements, {len(broken)} broken promises")
    return 1 if broken else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
