"""Reports measurements: tables, and a verdict for each target."""

import math
from pathlib import Path

from .rows import AT_PEAK, BATCHES, middle, values

BEGIN = "<!-- measured: written by benches/run.py -->"
END = "<!-- /measured -->"

# Models with long inference times, which batching must not slow down.
LONG = ("resnet18", "bert")
# Models with short inference times, which show the overhead of the server.
SHORT = ("add_sub", "mlp")
TITLES = {"http-binary": "HTTP, binary", "http-json": "HTTP, JSON", "grpc": "gRPC"}


def summary(result: dict) -> str:
    """Returns the measured part of docs/performance.md: the machine, and a verdict for each target."""
    return joined([setup(result), targets(result)])


def details(result: dict) -> str:
    """Returns the measured part of docs/history/measured.md: the runs, and a table of every point."""
    return joined([runs(result), loads(result), opens(result), raws(result), starts(result)])


def joined(parts: list) -> str:
    """Joins the parts that are not empty."""
    return "\n\n".join(part for part in parts if part)


def insert(page: Path, text: str, begin: str = BEGIN) -> None:
    """Replaces the text between the page's markers."""
    old = page.read_text()
    before, _, rest = old.partition(begin)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{begin}\n{text}\n{END}{after}")


def table(head: list, lines: list) -> str:
    rule = ["---" if i == 0 or name == "server" else "---:" for i, name in enumerate(head)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *lines])


def number(value: float) -> str:
    """Formats a number with three digits, which is more than the noise allows."""
    if math.isnan(value):
        return "–"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{digits}f}".replace(",", " ")


def spread(point: dict, *keys: str, scale: float = 1.0) -> str:
    """Formats the median and, in brackets, the smallest and largest of the rounds."""
    found = [value * scale for value in values(point, *keys)]
    if any(math.isnan(value) for value in found):
        return "failed"
    return f"{number(middle(point, *keys) * scale)} ({number(min(found))}–{number(max(found))})"


def setup(result: dict) -> str:
    machine, versions = result["machine"], result["versions"]
    points = result["closed"] + result["open"]
    lines = [
        f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory']}, Linux {machine['kernel']}, no GPU.",
        f"weir-runtime {versions['weir-runtime']}, libtorch {versions['libtorch']} under all servers, Triton {versions['triton']}, {versions['rustc']}.",
        "Numbers are medians, in brackets the smallest and largest round.",
    ]
    if points:
        busy = sorted(middle(point, "other_cores_busy") for point in points)
        lines.append(f"Other processes kept {busy[len(busy) // 2]:.2f} cores busy in the median point and "
                     f"{busy[-1]:.2f} in the worst.")
    closed = result["closed"]
    if closed:
        share, point = max(((middle(p, "client_cpu_us") * middle(p, "requests_per_s") / 1e6, p) for p in closed), key=lambda pair: pair[0])
        lines.append(f"The client used at most {share:.0%} of its core in the closed loops: {point['model']}, "
                     f"{TITLES[point['protocol']]}, {point['connections']} connections, {point['server']}.")
    lines += [f"Left out: {note}." for note in result["left_out"]]
    return "\n\n".join(lines)


def runs(result: dict) -> str:
    """Returns a paragraph for each run that measured points of this record."""
    return "\n\n".join(
        f"`{run['command']}`, {run['started']}, commit {run['commit']}, load average before: {run['load_before']:.1f}. "
        f"{run['rounds']} interleaved rounds of {run['seconds']:g} s (four times that for resnet18 and bert) after a warm-up."
        for run in result["runs"])


class Index:
    """An index of points by their fields."""

    def __init__(self, points: list):
        self.points = points

    def value(self, keys: tuple, **where) -> dict:
        """Returns the median of the matching points, by server."""
        found = {}
        for point in self.points:
            if all(point[key] == wanted for key, wanted in where.items()):
                found[point["server"]] = middle(point, *keys)
        return found


def tritons(by_server: dict) -> list:
    return [value for name, value in by_server.items() if name != "weir" and not math.isnan(value)]


def loop(result: dict, where: dict, key: str, pick) -> float:
    """Returns the throughput of the loop without a server, from the rounds in which it was measured together with servers
    if there are any, otherwise from its own rounds."""
    beside = [point for point in result["beside"] if where.items() <= point.items()]
    alone = [point for point in result["raw"] if point["model"] == where["model"]]
    return pick((middle(point, key) for point in beside or alone), default=math.nan)


def verdict(what: str, ours: str, theirs: str, ratio: float, target: str, met: bool) -> list:
    if math.isnan(ratio):
        return [what, ours, theirs, "–", target, "not measured"]
    return [what, ours, theirs, f"{ratio:.2f}", target, "yes" if met else "**no**"]


def targets(result: dict) -> str:
    """Returns a line for each target that this run measures."""
    closed, open_ = Index(result["closed"]), Index(result["open"])
    lines = (limits(result, closed) + overheads(result, closed) + peak(closed) + lone(result, closed)
             + tails(closed, open_) + memory(closed) + readiness(result))
    if not lines:
        return ""
    head = ["work", "weir", "against", "ratio", "target", "met"]
    return "### Targets\n\n" + table(head, lines)


def limits(result: dict, closed: Index) -> list:
    lines = []
    for model in LONG:
        for connections in (8, 32, 128):
            for protocol in TITLES:
                where = {"model": model, "protocol": protocol, "connections": connections}
                limit = loop(result, where, "samples_per_s", max)
                ours = closed.value(("requests_per_s",), **where).get("weir", math.nan)
                if math.isnan(ours) or math.isnan(limit):
                    continue
                what = f"{model}, {TITLES[protocol]}, {connections}: requests/s"
                lines.append(verdict(what, number(ours), f"loop {number(limit)}", ours / limit, "≥ 0.95", ours / limit >= 0.95))
    return lines


def overheads(result: dict, closed: Index) -> list:
    lines = []
    for model in SHORT:
        for protocol in TITLES:
            where = {"model": model, "protocol": protocol, "connections": 32}
            floor = loop(result, where, "cpu_us_per_sample", min)
            cpu = closed.value(("server", "cpu_us_per_request"), **where)
            theirs = tritons(cpu)
            if "weir" not in cpu or not theirs or math.isnan(floor):
                continue
            ours, best = cpu["weir"] - floor, min(theirs) - floor
            what = f"{model}, {TITLES[protocol]}, 32: CPU above the loop, µs"
            lines.append(verdict(what, number(ours), number(best), ours / best, "≤ 0.40", ours / best <= 0.4))
    return lines


def peak(closed: Index) -> list:
    rates = closed.value(("requests_per_s",), model="mlp", protocol="http-binary", connections=128)
    theirs = tritons(rates)
    if "weir" not in rates or not theirs:
        return []
    ratio = rates["weir"] / max(theirs)
    return [verdict("mlp, HTTP, binary, 128: requests/s", number(rates["weir"]), number(max(theirs)), ratio, "≥ 1.50", ratio >= 1.5)]


def lone(result: dict, closed: Index) -> list:
    lines = []
    for model in dict.fromkeys(point["model"] for point in result["closed"]):
        for protocol in TITLES:
            p50 = closed.value(("latency_us", "p50"), model=model, protocol=protocol, connections=1)
            ours, theirs = p50.get("weir"), p50.get("triton, no batching")
            if ours is None or theirs is None:
                continue
            what = f"{model}, {TITLES[protocol]}, lone client's p50, µs"
            lines.append(verdict(what, number(ours), number(theirs), ours / theirs, "≤ 1.00", ours <= theirs))
    return lines


def tails(closed: Index, open_: Index) -> list:
    """Compares with the Triton setting with the highest peak, which a user would choose for that load."""
    lines = []
    for model, protocol in dict.fromkeys((p["model"], p["protocol"]) for p in open_.points):
        where = {"model": model, "protocol": protocol, "connections": AT_PEAK}
        p99 = open_.value(("latency_us", "p99"), **where)
        rates = open_.value(("rate",), **where)
        others = {name: rate for name, rate in rates.items() if name != "weir" and not math.isnan(p99[name])}
        if "weir" not in p99 or not others:
            continue
        name = max(others, key=others.get)
        ratio = p99["weir"] / p99[name]
        what = f"{model}, {TITLES[protocol]}, p99 at 70 % of own peak, µs"
        lines.append(verdict(what, number(p99["weir"]), f"{name}: {number(p99[name])}", ratio, "≤ 1.00", ratio <= 1))
    return lines


def memory(closed: Index) -> list:
    lines = []
    for model, target in (("add_sub", 0.85), ("resnet18", 1.0)):
        most = {}
        for point in closed.points:
            if point["model"] == model:
                used = max(values(point, "memory_mb", "rss"))
                most[point["server"]] = max(most.get(point["server"], 0.0), used)
        theirs = tritons(most)
        if "weir" not in most or not theirs:
            continue
        ratio = most["weir"] / min(theirs)
        lines.append(verdict(f"{model}, after load: RSS, MB", number(most["weir"]), number(min(theirs)), ratio, f"≤ {target:.2f}", ratio <= target))
    return lines


def readiness(result: dict) -> list:
    seconds = {point["server"]: middle(point, "seconds") for point in result["start"]}
    theirs = tritons(seconds)
    if "weir" not in seconds or not theirs:
        return []
    ratio = seconds["weir"] / min(theirs)
    return [verdict("digits: start to ready, s", number(seconds["weir"]), number(min(theirs)), ratio, "≤ 1.00", ratio <= 1)]


def loads(result: dict) -> str:
    """Tabulates throughput, latency and CPU time of every closed loop."""
    parts = []
    for model in dict.fromkeys(point["model"] for point in result["closed"]):
        lines = []
        for point in (point for point in result["closed"] if point["model"] == model):
            lines.append([
                f"{TITLES[point['protocol']]}, {point['connections']}", point["server"],
                spread(point, "requests_per_s"), spread(point, "latency_us", "p50"), spread(point, "latency_us", "p99"),
                spread(point, "server", "cpu_us_per_request"), number(middle(point, "server", "switches_per_request")),
                number(middle(point, "memory_mb", "rss")),
            ])
        head = ["protocol, connections", "server", "requests/s", "p50, µs", "p99, µs", "server CPU, µs/request", "waits/request", "RSS, MB"]
        parts.append(f"### {model}: closed loop\n\n{table(head, lines)}")
    return "\n\n".join(parts)


def opens(result: dict) -> str:
    lines = [[
        f"{point['model']}, {TITLES[point['protocol']]}, {point['connections']}", point["server"], spread(point, "rate"),
        spread(point, "latency_us", "p50"), spread(point, "latency_us", "p99"), spread(point, "latency_us", "p99.9"),
    ] for point in result["open"]]
    head = ["model, protocol, connections", "server", "requests/s asked", "p50, µs", "p99, µs", "p99.9, µs"]
    return f"### Open loop, Poisson arrivals, 70 % of each server's own peak\n\n{table(head, lines)}" if lines else ""


def raws(result: dict) -> str:
    rounds = [(f"{point['model']}, batch {point['batch']}", point) for point in result["raw"]]
    rounds += [(f"{point['model']}, batch {point['rounds'][0]['batch']}, in the rounds of {TITLES[point['protocol']]}, "
                f"{point['connections']} connections", point)
               for point in result["beside"]]
    lines = [[what, spread(point, "samples_per_s"), spread(point, "ms_per_batch"), spread(point, "cpu_us_per_sample")]
             for what, point in rounds]
    head = ["model", "rows/s", "ms/batch", "CPU, µs/row"]
    batches = ", ".join(str(batch) for batch in BATCHES)
    return f"### libtorch without a server, one thread, batches of {batches}\n\n{table(head, lines)}" if lines else ""


def starts(result: dict) -> str:
    lines = [[point["server"], spread(point, "seconds"), spread(point, "memory_mb", "rss")] for point in result["start"]]
    return "### digits: start to ready, warm page cache\n\n" + table(["server", "seconds", "RSS then, MB"], lines) if lines else ""
