"""Puts the server under test behind `weir up`: pytest's option `--through gateway`.

Each server of a test is then a `weir up` with one InferenceService, whose container is the same `weir-runtime` with the
same options. HTTP clients address it by path or by host, gRPC clients by the authority of their channel, so that calls
to the server as a whole (load, shared memory, trace) reach it, too. Tests that need the server itself are in
`DIRECT_ONLY`. The gateway's own responses, for all services, are tested in test_platform.py.
"""

import json
import os
import re
from pathlib import Path

import pytest

import wire

ROOT = Path(__file__).resolve().parent.parent.parent
BINARY = Path(os.environ.get("WEIR", ROOT / "target" / "release" / "weir"))

# Name and namespace of the service that the host `HOST` addresses.
NAME, NAMESPACE = wire.HOST.split(".")


def manifest(command: list[str], **fields) -> str:
    """Returns the InferenceService as JSON, which is valid YAML, with these further fields of its predictor.

    The concurrency limit admits every request to the replica, so that requests queue in the runtime, where tests
    observe them.
    """
    container = {"name": "kserve-container", "command": command}
    predictor = {"minReplicas": 1, "maxReplicas": 1, "containerConcurrency": 1000, "containers": [container]}
    predictor.update(fields)
    return json.dumps(
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                # Tests also call the control routes of the server.
                "annotations": {"weir.dev/control-routes": "true"},
            },
            "spec": {"predictor": predictor},
        }
    )


def up(*files: Path, port: int, admin_port: int, state: Path) -> list[str]:
    """Returns the command that serves these files."""
    command = [str(BINARY), "up", "--port", str(port), "--admin-port", str(admin_port)]
    command += ["--state-dir", str(state)]
    for file in files:
        command += ["--file", str(file)]
    return command


def use_gateway(server, **fields) -> None:
    """Changes a server that has not started yet to one behind a gateway, with further fields of the predictor."""
    flags = {"--http-port": "$(PORT)", "--grpc-port": "$(GRPC_PORT)"}
    # `env` hides that the command is `weir-runtime`. Otherwise `weir up` would choose all ports, but tests read the
    # metrics at the port that they chose.
    inner = ["env", *server.command]
    for flag, value in flags.items():
        inner[inner.index(flag) + 1] = value
    state = server.log.with_name(server.log.name + ".weir")
    state.mkdir()
    file = state / "models.yaml"
    file.write_text(manifest(inner, **fields))
    port, admin_port = server.http_port, server.grpc_port
    server.command = up(file, port=port, admin_port=admin_port, state=state)
    server.grpc_port = port
    server.http = f"127.0.0.1:{port}/serving/{NAMESPACE}/{NAME}"
    server.grpc = f"127.0.0.1:{port}"


def skip_direct_only(items: list) -> set[str]:
    """Skips the tests of `DIRECT_ONLY`, each with its reason. Returns the patterns that match no test in the collected
    files."""
    files = {item.path.stem for item in items}
    unused = {pattern for pattern in DIRECT_ONLY if pattern.split("::")[0] in files}
    for item in items:
        case = f"{item.path.stem}::{item.name}"
        for pattern, reason in DIRECT_ONLY.items():
            if re.fullmatch(pattern, case):
                item.add_marker(pytest.mark.skip(reason=reason))
                unused.discard(pattern)
    return unused


AUTHORITY = "perf_analyzer cannot set a gRPC call's authority; test_platform.py runs it by the model's name"
NOT_READY = "a gateway sends nothing to a server that is not ready"
REFUSAL = "a gateway retries a refused request up to 8 times, 50 ms apart"
FLAG = "the gateway reads requests before the server does, and has no such flag"

# Tests that cannot run through a gateway, each as a regular expression for `file::test`, with the reason.
DIRECT_ONLY: dict[str, str] = {
    r"test_platform::.*": "it starts a gateway of its own",
    r"test_inference_limits::test_an_example_applies_to_one_model": "exit code of weir-runtime itself",
    r"test_repository_control::test_folder_without_a_model_.*": "exit code and log of weir-runtime itself",
    r"test_files::test_files_that_cannot_be_served_.*": "log of weir-runtime itself",
    r"test_files::test_an_inspection_.*": "a command of weir-runtime, which serves nothing",
    r"test_trials::.*": "process, exit and log of weir-runtime itself",
    r"test_stuck::.*": "liveness of weir-runtime itself; its last test starts a gateway of its own",
    r"test_polled_repository::.*": "it changes files under one server, which a gateway does not see",
    r"test_shutdown::.*": "shutdown of weir-runtime; that of weir is tested in cli/tests/platform",
    r"test_perf_analyzer::test_concurrency_range\[grpc-.*": AUTHORITY,
    r"test_perf_analyzer::test_options\[.*-grpc\]": AUTHORITY,
    r"test_perf_analyzer::test_shared_memory\[grpc\]": AUTHORITY,
    r"test_perf_analyzer::test_streaming": AUTHORITY,
    r"test_perf_analyzer::test_metrics_url": AUTHORITY,
    r"test_batching::test_32_clients_on_digits.*\[grpc\]": AUTHORITY,
    r"test_batching::test_32_clients_on_digits.*\[http\]": "the size of batches depends on how fast requests arrive",
    r"test_batching::test_timeout_of_a_request_shortens_the_default.*": REFUSAL,
    r"test_batching::test_refusals_are_marked_for_gateways": "a gateway does not forward the header",
    r"test_stats_metrics::test_refusals_are_counted": REFUSAL,
    r"test_stats_metrics::test_failures_of_a_model_have_one_line_in_the_log": "the log of weir-runtime itself",
    r"test_repository_control::test_model_that_does_not_load_has_its_reason.*": NOT_READY,
    r"test_repository_control::test_good_model_is_served_despite_broken_ones": NOT_READY,
    r"test_repository_control::test_strict_readiness_with_a_broken_model.*": NOT_READY,
    r"test_repository_control::test_broken_model_fails_the_start_by_default": "weir restarts it, and waits",
    r"test_repository_control::test_repository_that_does_not_exist": "weir restarts it, and waits",
    r"test_repository_control::test_repository_at_a_url_of_another_scheme.*": "weir restarts it, and waits",
    r"test_errors_grpc::test_.*_port_names_the_.*_port": "a gateway has one port for both",
    r"test_errors_http::test_refused_before_the_server_requests_the_body": "a gateway reads the whole body first",
    r"test_abuse::test_bodies_together_are_bounded": FLAG,
    r"test_abuse::test_short_requests_are_admitted_despite_long_bodies": FLAG,
    r"test_abuse::test_headers_that_never_end_time_out": FLAG,
    r"test_waits::.*": FLAG,
    r"test_settings::test_traces_in_json.*": "the log of weir-runtime itself",
    r"test_crowd::.*": "it starts a gateway of its own",
    r"test_other_servers::.*": "it starts a gateway of its own",
    r"test_components::.*": "it starts a gateway of its own",
    r"test_gateway_batches::.*": "it starts a gateway of its own",
    r"test_access::.*": "it starts a gateway of its own",
    r"test_abuse_access::.*": "it starts a gateway of its own",
    r"test_abuse_tokens::.*": "it starts a gateway of its own",
    r"test_memory::test_inputs_in_shared_memory_count": REFUSAL,
    r"test_memory::test_answers_count_before_they_are_json": FLAG,
    r"test_memory::test_strings_count_with_their_size_in_memory": REFUSAL,
    r"test_memory::test_answers_count_until_they_are_read": "a gateway leaves long answers with the server",
}
