"""Models that keep state from one run to the next, or whose rows depend on each other: no client may get results of
another client's request, and the first request finds the model as it was saved."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from server import Server
from wire import request, tensor

MODELS = Path(__file__).resolve().parents[2] / "runtime/torch/tests/models"

# The state of these tests must not be shared with other requests, so each test has its own server.
TWO = 'instance_group [{ kind: KIND_CPU, count: 2 }]'
SHARED = 'parameters { key: "ENABLE_WEIGHT_SHARING" value { string_value: "true" } }'
CLIENTS = 16
SECONDS = 3


def repository(folder: Path, model: str, config: str = "") -> Path:
    version = folder / "models/m/1"
    version.mkdir(parents=True)
    shutil.copy(MODELS / f"{model}.pt", version / "model.pt")
    (folder / "models/m/config.pbtxt").write_text(f'backend: "pytorch"\n{config}\n')
    return folder / "models"


def ask(server: Server, values: list) -> list:
    body = request(tensor("x", "FP32", [1, len(values)], values))
    return [output["data"] for output in server.infer("m", body).outputs().values()]


def under_load(server: Server, asked: list) -> list:
    """Returns the answers to clients that send requests concurrently, as pairs of question and answer."""
    until = time.monotonic() + SECONDS

    def client(number: int) -> list:
        answers, at = [], number
        while time.monotonic() < until:
            values = asked[at % len(asked)]
            answers.append((values, ask(server, values)))
            at += 1
        return answers

    with ThreadPoolExecutor(CLIENTS) as pool:
        return [pair for answers in pool.map(client, range(CLIENTS)) for pair in answers]


@pytest.mark.parametrize("config", [TWO, f"{TWO}\n{SHARED}"], ids=["by-default", "asked-to-share"])
def test_instances_of_a_model_that_assigns_its_state(start, tmp_path, config):
    """Each request begins a new state, so its answer equals that of a server without other requests."""
    server = start([repository(tmp_path, "recurrent", config)])
    asked = [[1.0, 0.1 * number, -0.2, 0.05 * number] for number in range(8)]
    alone = [(values, ask(server, values)) for values in asked]
    assert len({str(answer) for _, answer in alone}) == len(asked)
    answers = under_load(server, asked)
    assert len(answers) > 100
    wrong = [pair for pair in answers if pair not in alone]
    assert not wrong, wrong[:3]
    log = server.log.read_text()
    assert "assigns self." in log
    assert ("ENABLE_WEIGHT_SHARING is not followed" in log) == (SHARED in config)


def test_instances_of_a_model_that_counts(start, tmp_path):
    """Each of two counters returns every number once, even while an earlier response is still being sent."""
    server = start([repository(tmp_path, "counter", TWO)])
    answers = under_load(server, [[0.0]])
    for _, (sum_of, calls) in answers:
        assert sum_of == calls
    counted = sorted(calls[0] for _, (_, calls) in answers)
    assert set(counted) == {float(count) for count in range(1, int(counted[-1]) + 1)}
    assert all(counted.count(count) <= 2 for count in set(counted))


@pytest.mark.parametrize("model", ["counter", "captured", "window", "cache"])
@pytest.mark.parametrize("config", ["", "max_batch_size: 4"], ids=["bare", "batched"])
def test_the_first_request_runs_on_the_model_as_saved(start, tmp_path, model, config):
    if config and model == "counter":
        pytest.skip("one of its outputs has no rows")
    server = start([repository(tmp_path, model, config)])
    first = {"counter": 2.0, "captured": 3.0, "window": 1.0, "cache": 5.0}
    assert ask(server, [1.0] * 4)[0] == [first[model]] * 4


def test_instances_have_their_own_copies_if_configured(start, tmp_path):
    """This applies to models that do not write to their own state, too; the log tells how much memory it costs."""
    server = start([repository(tmp_path, "mlp", f"{TWO}\n{SHARED.replace('true', 'false')}")])
    lines = [line for line in server.log.read_text().splitlines() if "ENABLE_WEIGHT_SHARING is false" in line]
    assert len(lines) == 1, lines
    extra = int(lines[0].split("extra_bytes=")[1].split()[0])
    assert extra > 0 and "instances=2" in lines[0], lines


def test_rows_that_affect_each_other_slightly_are_not_batched(start, tmp_path):
    server = start([repository(tmp_path, "mixing/centred")])
    body = lambda values: request(tensor("y", "FP32", [1, 4], values))
    until = time.monotonic() + SECONDS

    def client(number: int) -> set:
        seen = set()
        while time.monotonic() < until:
            reply = server.infer("m", body([float(number)] * 4))
            seen.update(value for output in reply.outputs().values() for value in output["data"])
        return seen

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert set.union(*pool.map(client, range(CLIENTS))) == {0.0}
    assert "each request runs by itself" in server.log.read_text()


def test_a_configured_batch_of_dependent_rows_logs_a_warning(start, tmp_path):
    tensors = "input [{ name: 'y', data_type: TYPE_FP32, dims: [4] }] output [{ name: 'z', data_type: TYPE_FP32, dims: [4] }]"
    server = start([repository(tmp_path, "mixing/centred", f"max_batch_size: 8\n{tensors}")])
    log = server.log.read_text()
    assert "may depend on the requests of others" in log and "max_batch_size: 0" in log
