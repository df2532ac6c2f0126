#!/usr/bin/env python3
"""Compares weir-runtime with Triton and with libtorch without a server.

    benches/run.py             everything, about five hours; `make bench` runs this
    benches/run.py --quick     two small models, a second per point, about six minutes

Servers run on core 0, and only one of them is loaded at a time; the load generator runs on core 1. All servers of a
model are up at the same time, and each round of a point measures all of them and libtorch without a server, so that
disturbances of the machine affect all of them alike. Every measurement compares responses with libtorch's results from
when the models were created.

Writes benches/results/runtime.json, the targets in docs/performance.md and the tables of docs/history/measured.md.
With --quick, or another --out, it writes only the JSON, and prints the tables.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from harness import report, rows, servers
from harness.paths import BENCH, LOAD, MEASURED_PAGE, MODELS, PAGE, RAW_LOOP, RESULTS, ROOT, TRITON, WEIR
from harness.record import machine, output, written

PROTOCOLS = ["http-binary", "http-json", "grpc"]
# `open` uses the number of connections that gave a server its peak, `crowd` many more.
ROWS = ["raw", "load", "open", "crowd", "start"]


class Plan(NamedTuple):
    """Rows to measure, their duration and number of rounds."""

    rows: list
    models: list
    protocols: list
    open_protocols: list
    open_over: list
    connections: list
    rounds: int
    seconds: float


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def listed(text: str) -> list:
        return text.split(",")

    parser.add_argument("--quick", action="store_true", help="fewer and shorter points")
    parser.add_argument("--rows", type=listed, default=ROWS, metavar=",".join(ROWS),
                        help="which kinds of rows; load has libtorch without a server in its rounds where raw finds its best "
                             "batch; open loops need load, which finds the peaks: open goes over as many connections as gave "
                             f"the peak, crowd over {rows.CROWD}")
    parser.add_argument("--models", type=listed, help="add_sub,mlp,resnet18,bert")
    parser.add_argument("--protocols", type=listed, default=PROTOCOLS, metavar=",".join(PROTOCOLS))
    parser.add_argument("--connections", type=listed, help="1,8,32,128")
    parser.add_argument("--rounds", type=int, help="number of measurements of each point")
    parser.add_argument("--seconds", type=float, help="duration of each measurement; four times that for long models")
    parser.add_argument("--out", type=Path, help="output file for the JSON")
    parser.add_argument("--add", action="store_true", help="keep the existing results of other points, to measure in parts")
    given = parser.parse_args()
    if unknown := set(given.rows) - set(ROWS):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    if {"open", "crowd"} & set(given.rows) and "load" not in given.rows:
        parser.error("rows open and crowd need load, which finds the peaks")
    return given


def plan(given: argparse.Namespace) -> Plan:
    quick = given.quick
    return Plan(
        rows=given.rows,
        models=given.models or (["add_sub", "mlp"] if quick else ["add_sub", "mlp", "resnet18", "bert"]),
        protocols=given.protocols,
        open_protocols=[protocol for protocol in given.protocols if protocol == "http-binary" or not quick],
        open_over=[over for row, over in (("open", rows.AT_PEAK), ("crowd", rows.CROWD)) if row in given.rows],
        connections=[int(c) for c in given.connections or (["1", "32", "128"] if quick else ["1", "8", "32", "128"])],
        rounds=given.rounds or (2 if quick else 5),
        seconds=given.seconds or (1.0 if quick else 3.0),
    )


def left_out(what: Plan) -> list:
    """Returns notes about missing programs and files."""
    notes = []
    if not TRITON.exists():
        notes.append("Triton: `make bench-peers` installs it")
    if not RAW_LOOP.exists():
        notes.append("the loop without a server: `make bench-peers` builds it")
    notes += [f"rows '{row}': not asked for" for row in ROWS if row not in what.rows]
    return notes


def require() -> None:
    for path, how in ((WEIR, "make bench"), (LOAD, "make bench"), (MODELS / "models.json", "make bench-models")):
        if not path.exists():
            raise SystemExit(f"{path.relative_to(ROOT)} is missing: run {how}")
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("measuring takes two cores: one for the server, one for the client")


def versions() -> dict:
    stamp = json.loads((ROOT / ".libtorch" / "stamp.json").read_text())
    return {
        "weir-runtime": output(str(WEIR), "--version").split()[-1],
        "commit": output("git", "rev-parse", "--short", "HEAD"),
        "triton": "2.51.0, of nvidia-pytriton 0.7.0" if TRITON.exists() else None,
        "libtorch": next(name.partition("==")[2] for name in stamp["wheels"] if name.startswith("torch==")),
        "rustc": output("rustc", "--version"),
    }


def measure(what: Plan) -> dict:
    result = {"raw": [], "beside": [], "closed": [], "open": [], "start": []}
    if "raw" in what.rows:
        result["raw"] = rows.raw(what)
    if "load" in what.rows:
        result |= rows.loads(what, result["raw"])
    if "start" in what.rows:
        result["start"] = rows.starts(what)
    return result


# Fields that identify a point, by kind of measurement.
SAME_POINT = {
    "raw": ("model", "batch"),
    "beside": ("model", "protocol", "connections"),
    "closed": ("model", "protocol", "connections"),
    "open": ("model", "protocol", "connections"),
}


def together(before: dict, now: dict) -> dict:
    """Returns this run's measurements, and earlier ones for points that this run did not measure."""
    result = {**now, "runs": before["runs"] + now["runs"]}
    for kind, keys in SAME_POINT.items():
        # A loop is kept or replaced together with the servers of its rounds.
        replaced = now["closed" if kind == "beside" else kind]
        again = {tuple(point[key] for key in keys) for point in replaced}
        kept = [point for point in before.get(kind, []) if tuple(point[key] for key in keys) not in again]
        result[kind] = kept + now[kind]
    result["start"] = now["start"] or before["start"]
    result["left_out"] = [note for note in now["left_out"] if note in before["left_out"]]
    return result


def main() -> None:
    given = arguments()
    what = plan(given)
    require()
    out = (given.out or (BENCH / "quick.json" if given.quick else RESULTS)).resolve()
    notes = left_out(what)
    for note in notes:
        print(f"left out: {note}")
    started, load_before = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), os.getloadavg()[0]
    known = versions()
    run = {
        "command": " ".join(["benches/run.py", *sys.argv[1:]]),
        "started": started,
        "load_before": load_before,
        "commit": known["commit"],
        "rounds": what.rounds,
        "seconds": what.seconds,
    }
    measured = measure(what)
    result = {"runs": [run], "machine": machine(), "versions": known, "left_out": notes, **measured}
    if given.add and out.exists():
        result = together(json.loads(out.read_text()), result)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(written(result))
    if out == RESULTS:
        report.insert(PAGE, report.summary(result))
        report.insert(MEASURED_PAGE, report.details(result))
        print("wrote", *(path.relative_to(ROOT) for path in (out, PAGE, MEASURED_PAGE)))
    else:
        print(report.summary(result), report.details(result), sep="\n\n")


if __name__ == "__main__":
    main()
