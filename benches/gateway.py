#!/usr/bin/env python3
"""Compares Weir's gateway with nginx and haproxy as plain proxies of the same upstream.

    benches/gateway.py                                                          everything; `make bench-gateway` runs this
    benches/gateway.py --kinds closed --rows http-1k,grpc-64k --rounds 3        some rows, to the terminal
    benches/gateway.py --kinds closed --weir PATH/weir                          another build

Proxies run on core 0, and only one of them is loaded at a time; the load generator and the upstream run on core 1. All
proxies are up at the same time, and each round of a row measures all of them. Responses are compared with the end of
the request that they answer.

When all servers are measured, it writes benches/results/gateway.json, the gateway's targets in docs/performance.md and
its tables in docs/history/measured.md; --add keeps the recorded results of other rows, so that rows can be measured in
several runs. Otherwise it only prints.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from harness import gateway, gateway_report, proxies, report
from harness.paths import BENCH, GATEWAY_RESULTS, MEASURED_PAGE, PAGE, ROOT, TARGET
from harness.record import machine, output, written

KINDS = ["closed", "open", "memory"]
SERVERS = [*proxies.PROXIES, "direct"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def listed(text: str) -> list:
        return text.split(",")

    programs = TARGET / "dist"
    parser.add_argument("--kinds", type=listed, default=KINDS, metavar=",".join(KINDS), help="kinds of loops; open needs closed and the server direct")
    parser.add_argument("--rows", type=listed, default=gateway.ROWS, metavar=",".join(gateway.ROWS))
    parser.add_argument("--servers", type=listed, default=SERVERS, metavar=",".join(SERVERS))
    parser.add_argument("--rounds", type=int, default=7, help="number of measurements of each point")
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of each measurement")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--add", action="store_true", help="keep the existing results of other rows, to measure in parts")
    parser.add_argument("--weir", type=Path, default=programs / "weir", help="the program weir")
    parser.add_argument("--load", type=Path, default=programs / "load", help="the load generator")
    parser.add_argument("--upstream", type=Path, default=programs / "upstream", help="the server behind the proxies")
    return parser.parse_args()


def require(plan: gateway.Plan) -> None:
    for path in (plan.weir, plan.load, plan.upstream):
        if not path.exists():
            raise SystemExit(f"{path} is missing: run make bench-gateway")
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("measuring takes two cores: one for the proxy, one for the client")


def versions(plan: gateway.Plan) -> dict:
    return {
        "weir": output(str(plan.weir), "--version").split()[-1],
        "commit": output("git", "rev-parse", "--short", "HEAD"),
        "nginx": output(proxies.program("nginx"), "-v").rpartition("/")[2],
        "haproxy": output(proxies.program("haproxy"), "-v").split()[2],
        "rustc": output("rustc", "--version"),
    }


def command() -> str:
    """Returns the given options, except the paths of programs on this machine."""
    given = [word for pair in zip(sys.argv, sys.argv[1:]) if not {*pair} & {"--weir", "--load", "--upstream"} for word in pair[1:]]
    return " ".join(["benches/gateway.py", *given])


def together(before: dict, now: dict) -> dict:
    """Returns this run's measurements, and earlier ones for points that this run did not measure."""
    result = {**now, "runs": before["runs"] + now["runs"], "memory": now["memory"] or before["memory"]}
    for kind in ("closed", "open"):
        again = {point["row"] for point in now[kind]}
        points = [point for point in before[kind] if point["row"] not in again] + now[kind]
        result[kind] = sorted(points, key=lambda point: gateway.ROWS.index(point["row"]))
    return result


def main() -> None:
    given = arguments()
    settings = {name: value for name, value in vars(given).items() if name in gateway.Plan._fields}
    plan = gateway.Plan(**settings, folder=BENCH / "gateway")
    require(plan)
    started, load_before = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), os.getloadavg()[0]
    closed, open_ = gateway.loads(plan) if "closed" in plan.kinds else ([], [])
    memory = gateway.memory(plan) if "memory" in plan.kinds else []
    is_part = (plan.kinds, plan.rows) != (KINDS, gateway.ROWS)
    if plan.servers != SERVERS or (is_part and not given.add):
        return
    known = versions(plan)
    run = {"command": command(), "started": started, "load_before": load_before,
           "commit": known["commit"], "rounds": plan.rounds, "seconds": plan.seconds, "connections": plan.connections}
    result = {"runs": [run], "machine": machine(), "versions": known, "closed": closed, "open": open_, "memory": memory}
    if given.add and GATEWAY_RESULTS.exists():
        result = together(json.loads(GATEWAY_RESULTS.read_text()), result)
    GATEWAY_RESULTS.write_text(written(result))
    report.insert(PAGE, gateway_report.summary(result), gateway_report.BEGIN)
    report.insert(MEASURED_PAGE, gateway_report.details(result), gateway_report.BEGIN)
    print("wrote", *(path.relative_to(ROOT) for path in (GATEWAY_RESULTS, PAGE, MEASURED_PAGE)))


if __name__ == "__main__":
    main()
