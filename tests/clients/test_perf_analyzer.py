"""NVIDIA's perf_analyzer runs unchanged, over both protocols and with both encodings."""

import csv
import platform
import subprocess

import pytest

from server import GOOD, ROOT

TOOL = ROOT / ".venv" / "perf_analyzer" / "bin" / "perf_analyzer"

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the perf_analyzer binary exists for x86_64 only"
)


def analyze(server, tmp_path, model: str, protocol: str, *options: str) -> tuple[str, list[dict]]:
    """Runs perf_analyzer briefly; returns its report and the rows of its CSV."""
    assert TOOL.exists(), "run scripts/clients.sh first"
    report = tmp_path / "report.csv"
    command = [TOOL, "-m", model, "-i", protocol, "-u", server.http if protocol == "http" else server.grpc]
    # The three windows that perf_analyzer requires are short and may differ, because this tests that it works, not how
    # fast. It measures more windows if a pause of the machine left one without a response, or made one a thousand times
    # slower.
    command += ["-p", "200", "-r", "20", "-s", "999", "-f", report, "--verbose-csv", *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    output = run.stdout + run.stderr
    assert run.returncode == 0, output
    with report.open() as rows:
        return output, list(csv.DictReader(rows))


def check(output: str, rows: list[dict], count: int = 1) -> None:
    """Checks that the report contains throughput and the server's own statistics."""
    assert len(rows) == count, output
    for row in rows:
        assert float(row["Inferences/Second"]) > 0
        # These values come from the server's statistics.
        assert float(row["Server Compute Infer"]) >= 0 and float(row["Server Queue"]) >= 0
    assert "Server:" in output and "Inference count:" in output


# There is no JSON over gRPC.
@pytest.mark.parametrize("protocol, form", [("http", "binary"), ("http", "json"), ("grpc", "binary")])
def test_concurrency_range(server, tmp_path, protocol, form):
    options = ["--concurrency-range", "1:3:2"]
    if form == "json":
        options += ["--input-tensor-format", "json", "--output-tensor-format", "json"]
    check(*analyze(server, tmp_path, "digits", protocol, *options), count=2)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize(
    "model, options",
    [
        ("add_sub", ["-b", "4"]),
        ("add_sub", ["--async"]),
        ("add_sub", ["--input-data", "zero"]),
        ("identity_fp32", ["--shape", "INPUT0:100"]),
        ("identity_str", ["--shape", "INPUT0:3", "--string-length", "20"]),
        ("two_versions", ["-x", "2"]),
        ("simple", ["--request-rate-range", "100:200:100"]),
    ],
)
def test_options(server, tmp_path, protocol, model, options):
    count = 2 if "--request-rate-range" in options else 1
    check(*analyze(server, tmp_path, model, protocol, *options), count=count)


def test_streaming(server, tmp_path):
    output, rows = analyze(server, tmp_path, "simple", "grpc", "--streaming", "--async")
    assert len(rows) == 1 and float(rows[0]["Inferences/Second"]) > 0, output


def test_input_data_from_a_file(server, tmp_path):
    data = tmp_path / "data.json"
    data.write_text('{"data": [{"INPUT0": [1, 2, 3]}]}')
    options = ["--input-data", str(data), "--shape", "INPUT0:3"]
    check(*analyze(server, tmp_path, "identity_int32", "http", *options))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_shared_memory(start, tmp_path, protocol):
    server = start([GOOD], "--allow-client-shm=true", "--model-control-mode=explicit", "--load-model=add_sub")
    check(*analyze(server, tmp_path, "add_sub", protocol, "--shared-memory", "system"))


def test_metrics_url(server, tmp_path):
    """--collect-metrics reads nv_gpu_* if there is a GPU; without a GPU it must still succeed."""
    url = f"127.0.0.1:{server.metrics_port}/metrics"
    options = ["--collect-metrics", "--metrics-url", url, "--metrics-interval", "100"]
    check(*analyze(server, tmp_path, "add_sub", "grpc", *options))
