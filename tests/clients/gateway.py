"""The server under test behind `weir up`: pytest's option `--through gateway`.

Each server that a case asks for is then a `weir up` with one InferenceService, whose container is the
same `weir-runtime` with the same options. HTTP clients find it by path or by host, gRPC clients by the
authority of their channel: so addressed, calls to the server as a whole (load, shared memory, trace) reach
it too. Cases that mean the server itself are in `EXCEPTIONS`. What the gateway answers for all services
is in test_platform.py.
"""

import json
import os
import re
from pathlib import Path

import pytest

import wire

ROOT = Path(__file__).resolve().parent.parent.parent
BINARY = Path(os.environ.get("WEIR", ROOT / "target" / "release" / "weir"))

# The service whose inner host is `HOST`.
NAME, NAMESPACE = wire.HOST.split(".")


def manifest(command: list[str]) -> str:
    """YAML is a superset of JSON.

    With room for every request at the replica, so that the queue is the runtime's: cases look into it.
    """
    container = {"name": "kserve-container", "command": command}
    predictor = {"minReplicas": 1, "maxReplicas": 1, "containerConcurrency": 1000, "containers": [container]}
    return json.dumps(
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {"predictor": predictor},
        }
    )


def up(*files: Path, port: int, admin_port: int, state: Path) -> list[str]:
    """The command that serves these files."""
    command = [str(BINARY), "up", "--port", str(port), "--admin-port", str(admin_port)]
    command += ["--state-dir", str(state)]
    for file in files:
        command += ["--file", str(file)]
    return command


def put_before(server) -> None:
    """Makes a server that was not started one that is asked through a gateway."""
    flags = {"--http-port": "$(PORT)", "--grpc-port": "$(GRPC_PORT)"}
    # As any container's command: of one that is plainly `weir-runtime`, `weir up` would choose all ports,
    # and cases read the metrics at theirs.
    inner = ["env", *server.command]
    for flag, value in flags.items():
        inner[inner.index(flag) + 1] = value
    state = server.log.with_name(server.log.name + ".weir")
    state.mkdir()
    file = state / "models.yaml"
    file.write_text(manifest(inner))
    port, admin_port = server.http_port, server.grpc_port
    server.command = up(file, port=port, admin_port=admin_port, state=state)
    server.grpc_port = port
    server.http = f"127.0.0.1:{port}/serving/{NAMESPACE}/{NAME}"
    server.grpc = f"127.0.0.1:{port}"


def except_those_that_mean_the_server(items: list) -> set[str]:
    """Marks the cases that cannot go through a gateway, each with its reason; gives exceptions that none
    of the cases needs, of files that are there."""
    files = {item.path.stem for item in items}
    unused = {pattern for pattern in EXCEPTIONS if pattern.split("::")[0] in files}
    for item in items:
        case = f"{item.path.stem}::{item.name}"
        for pattern, reason in EXCEPTIONS.items():
            if re.fullmatch(pattern, case):
                item.add_marker(pytest.mark.skip(reason=reason))
                unused.discard(pattern)
    return unused


AUTHORITY = "perf_analyzer cannot choose a gRPC call's authority; test_platform.py has it ask by the model's name"
NOT_READY = "a gateway sends nothing to a server that says that it is not ready"
REFUSAL = "a gateway does not pass a refusal on at once: it tries again up to 8 times, 50 ms apart"
FLAG = "the gateway receives requests before the server does, and has no such flag"

# `file::case` as a regular expression, and why what it shows is not to be had through a gateway.
EXCEPTIONS: dict[str, str] = {
    r"test_platform::.*": "it has a gateway of its own",
    r"test_shutdown::.*": "how weir-runtime ends; how weir ends is in cli/tests/platform",
    r"test_perf_analyzer::test_concurrency_range\[grpc-.*": AUTHORITY,
    r"test_perf_analyzer::test_options\[.*-grpc\]": AUTHORITY,
    r"test_perf_analyzer::test_streaming": AUTHORITY,
    r"test_perf_analyzer::test_metrics_url": AUTHORITY,
    r"test_batching::test_32_clients_on_digits.*\[grpc\]": AUTHORITY,
    r"test_batching::test_32_clients_on_digits.*\[http\]": "how full batches are depends on how fast requests come",
    r"test_batching::test_timeout_of_a_request_shortens_the_default.*": REFUSAL,
    r"test_batching::test_refusals_are_marked_for_gateways": "a gateway keeps the mark to itself",
    r"test_stats_metrics::test_refusals_are_counted": REFUSAL,
    r"test_repository_control::test_model_that_does_not_load_says_why.*": NOT_READY,
    r"test_repository_control::test_good_model_beside_broken_ones": NOT_READY,
    r"test_repository_control::test_strict_readiness_with_a_broken_model.*": NOT_READY,
    r"test_repository_control::test_broken_model_ends_the_start_by_default": "weir starts it again, and waits",
    r"test_repository_control::test_repository_that_does_not_exist": "weir starts it again, and waits",
    r"test_errors_http::test_refused_before_the_body_is_asked_for": "a gateway sends a request on once it has its body",
    r"test_abuse::test_bodies_together_are_bounded": FLAG,
    r"test_abuse::test_headers_that_never_end_are_cut_off": FLAG,
}
