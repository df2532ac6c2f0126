"""Reports gateway measurements: tables, and a verdict for each target."""

import statistics

from .gateway import IDLE_CONNECTIONS, SERVICES
from .report import joined, number, spread, table
from .rows import middle, values

BEGIN = "<!-- measured: written by benches/gateway.py -->"

TITLES = {"1k": "1 KiB", "64k": "64 KiB", "1m": "1 MiB", "http": "HTTP/1.1", "grpc": "gRPC"}
# The proxies in their usual configuration, and one with buffers for large requests.
PEERS = ("nginx", "haproxy")
WIDE = "haproxy-64k"
# Target: Weir's CPU time per request, as a multiple of the better peer's.
CPU_RATIOS = {"http-1k": 1.3, "http-64k": 1.1, "http-1m": 1.1, "grpc-1k": 1.2, "grpc-64k": 1.2, "grpc-1m": 1.2}
MOST_ADDED_US = 150.0
MOST_MEMORY_MIB = 60.0


def summary(result: dict) -> str:
    """Returns the gateway's measured part of docs/performance.md: the machine, and a verdict for each target."""
    return joined([setup(result), targets(result)])


def details(result: dict) -> str:
    """Returns the gateway's measured part of docs/history/measured.md: the runs, and a table of every point."""
    return joined([runs(result), loads(result), latencies(result)])


def title(row: str) -> str:
    kind, size = row.split("-")
    return f"{TITLES[kind]}, {TITLES[size]}"


def setup(result: dict) -> str:
    versions, machine = result["versions"], result["machine"]
    busy = sorted(middle(point, "other_cores_busy") - behind(result, point) for point in result["closed"])
    return "\n\n".join([
        f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory']}, Linux {machine['kernel']}.",
        f"weir {versions['weir']}, nginx {versions['nginx']}, haproxy {versions['haproxy']}, {versions['rustc']}.",
        "Numbers are medians, in brackets the smallest and largest round.",
        f"Processes other than proxy, client and upstream kept {max(busy[len(busy) // 2], 0):.2f} cores busy in the median "
        f"point and {max(busy[-1], 0):.2f} in the worst.",
    ])


def runs(result: dict) -> str:
    """Returns a paragraph for each run that measured points of this record."""
    return "\n\n".join(
        f"`{run['command']}`, {run['started']}, commit {run['commit']}, load average before: {run['load_before']:.1f}. "
        f"{run['rounds']} interleaved rounds of {run['seconds']:g} s, {run['connections']} connections." for run in result["runs"])


def behind(result: dict, point: dict) -> float:
    """Returns the number of cores that the upstream kept busy, from its CPU time per request without a proxy."""
    if point["server"] == "direct":
        return 0.0
    alone = found(result["closed"], point["row"], "direct")
    return middle(alone, "server", "cpu_us_per_request") * middle(point, "requests_per_s") / 1e6


def found(points: list, row: str, server: str) -> dict:
    return next(point for point in points if (point["row"], point["server"]) == (row, server))


def rows_of(result: dict) -> list:
    return list(dict.fromkeys(point["row"] for point in result["closed"]))


def verdict(is_met: bool) -> str:
    return "yes" if is_met else "**no**"


def targets(result: dict) -> str:
    lines = [line for row in rows_of(result) for line in cpu(result, row)] + [added(result, row) for row in rows_of(result)]
    lines += memory(result)
    return "### Gateway: targets\n\n" + table(["work", "weir", "against", "ratio or difference", "target", "met"], lines)


def cpu(result: dict, row: str) -> list:
    """Compares Weir's CPU time with that of the better peer, which sets the target, and also with that of haproxy with
    large buffers if it uses even less."""
    keys = ("server", "cpu_us_per_request")
    peers = [found(result["closed"], row, name) for name in PEERS]
    peer = min(peers, key=lambda point: middle(point, *keys))
    wide = found(result["closed"], row, WIDE)
    most = CPU_RATIOS[row]
    ratio, line = against(result, row, peer)
    lines = [[*line, f"≤ {most:.2f}", verdict(ratio <= most)]]
    if middle(wide, *keys) < middle(peer, *keys):
        lines.append([*against(result, row, wide)[1], "–", "–"])
    return lines


def against(result: dict, row: str, peer: dict) -> tuple:
    """Returns the median of the rounds' ratios to the peer, and a line of text with it."""
    keys = ("server", "cpu_us_per_request")
    ours = found(result["closed"], row, "weir")
    ratios = [a / b for a, b in zip(values(ours, *keys), values(peer, *keys))]
    ratio = statistics.median(ratios)
    return ratio, [f"{title(row)}: CPU, µs/request", number(middle(ours, *keys)), f"{peer['server']}: {number(middle(peer, *keys))}",
                   f"{ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f})"]


def differences(result: dict, row: str, server: str, quantile: str) -> list:
    """Returns the latency that a proxy adds in each round, in µs."""
    ours, without = (found(result["open"], row, name) for name in (server, "direct"))
    keys = ("latency_us", quantile)
    return [a - b for a, b in zip(values(ours, *keys), values(without, *keys))]


def interval(numbers: list) -> str:
    return f"{number(statistics.median(numbers))} ({number(min(numbers))} – {number(max(numbers))})"


def added(result: dict, row: str) -> list:
    ours, without = (middle(found(result["open"], row, name), "latency_us", "p50") for name in ("weir", "direct"))
    more = differences(result, row, "weir", "p50")
    return [f"{title(row)}: p50 at half load, µs", number(ours), f"no proxy: {number(without)}", interval(more),
            f"≤ {MOST_ADDED_US:.0f} more", verdict(statistics.median(more) <= MOST_ADDED_US)]


def memory(result: dict) -> list:
    if not result["memory"]:
        return []
    (point,) = result["memory"]
    with_connections = middle(point, "connections")
    return [[f"RSS, {SERVICES} services and {IDLE_CONNECTIONS} idle connections, MiB", spread(point, "connections"),
             f"services alone: {number(middle(point, 'services'))}", "–", f"< {MOST_MEMORY_MIB:.0f}",
             verdict(with_connections < MOST_MEMORY_MIB)]]


def loads(result: dict) -> str:
    lines = [[
        title(point["row"]), point["server"], spread(point, "server", "cpu_us_per_request"), spread(point, "requests_per_s"),
        spread(point, "latency_us", "p50"), spread(point, "latency_us", "p99"),
        f"{middle(point, 'server', 'cpu_share'):.0%}",
    ] for point in result["closed"]]
    head = ["request", "server", "CPU, µs/request", "requests/s", "p50, µs", "p99, µs", "of its core"]
    return "### Gateway: closed loop\n\n" + table(head, lines)


def latencies(result: dict) -> str:
    lines = []
    for point in result["open"]:
        row, server = point["row"], point["server"]
        more = ["–", "–"] if server == "direct" else [interval(differences(result, row, server, q)) for q in ("p50", "p99")]
        lines.append([title(row), server, number(point["rate"]), spread(point, "latency_us", "p50"),
                      spread(point, "latency_us", "p99"), *more])
    head = ["request", "server", "requests/s asked", "p50, µs", "p99, µs", "added p50", "added p99"]
    return "### Gateway: open loop, Poisson arrivals at half of Weir's peak\n\n" + table(head, lines)
