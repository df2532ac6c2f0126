"""Five models are unloaded and loaded again under load: no answer is wrong, and the server's memory does not grow.

The server runs on a GPU where there is one, with CUDA graphs, and on the CPU otherwise. `WEIR_RELOAD_SECONDS` is the length.
"""

import os
import shutil
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np
import pytest

import wire
from model_files import place
from server import GOOD, HEAVY, Server

MODELS = Path(__file__).resolve().parent.parent / "models"
GRAPHS = 'parameters { key: "CUDA_GRAPHS" value { string_value: "auto" } }\n'
SECONDS = float(os.environ.get("WEIR_RELOAD_SECONDS", "20"))
CLIENTS = 2
# Part of the time after which the heap and the caches have their size.
WARM = 1 / 3
# Growth over the rest of the time, by the slope of the samples. One lost copy of the largest model is 24 MiB.
MOST_GROWTH = 24 << 20
# Statuses of requests that meet a model between its unload and its load.
AWAY = (400, 404, 503)


class Case(NamedTuple):
    make: Callable[[np.random.Generator, int], dict[str, np.ndarray]]
    answer: Callable[..., list[np.ndarray]]


def floats(*shape: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda random, rows: random.integers(-8, 8, (rows, *shape)).astype(np.float32)


def numbers(x: np.ndarray) -> list[np.ndarray]:
    return [np.where(x > 0, x * np.float32([1, 2, 3]) + np.float32(0.5), x / 2), (x * 2).astype(np.int64)]


def even(random: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    return {"x": floats(2 * int(random.integers(2, 16)), 3)(random, rows)}


# TorchScript with two outputs, TorchScript with 24 MiB of weights, which are zeros, programs of torch.export with sequences of
# any length and with two outputs, and ONNX. The inputs are small integers, so that every answer is exact.
CASES = {
    "add_sub": Case(
        lambda random, rows: {name: floats(16)(random, rows) for name in ("INPUT0", "INPUT1")},
        lambda INPUT0, INPUT1: [INPUT0 + INPUT1, INPUT0 - INPUT1],
    ),
    "heavy": Case(lambda random, rows: {"input": floats(512)(random, rows)}, lambda input: [np.zeros_like(input)]),
    "even": Case(even, lambda x: [x.reshape(x.shape[0], -1, 6).sum(-1)]),
    "numbers": Case(lambda random, rows: {"x": floats(3)(random, rows)}, numbers),
    "cumulative": Case(lambda random, rows: {"x": floats(4)(random, rows)}, lambda x: [np.cumsum(x, 0)]),
}


def repository(folder: Path) -> Path:
    shutil.copytree(GOOD / "add_sub", folder / "add_sub")
    shutil.copytree(HEAVY, folder / "heavy")
    for model in ("even", "numbers"):
        place(MODELS / "exported" / f"{model}.pt2", folder, model)
    place(MODELS / "onnx" / "cumulative.onnx", folder, "cumulative")
    for model in ("add_sub", "heavy", "even", "numbers"):
        with (folder / model / "config.pbtxt").open("a") as config:
            config.write(GRAPHS)
    return folder


class Load:
    """Clients that ask every model until the block ends, and compare each answer with one computed from its input."""

    def __init__(self, server: Server):
        self.server = server
        self.ended = threading.Event()
        self.answers: Counter = Counter()
        self.refusals: Counter = Counter()
        self.wrong: list[str] = []
        self.threads = [
            threading.Thread(target=self.ask, args=(model, seed)) for model in CASES for seed in range(CLIENTS)
        ]

    def __enter__(self) -> "Load":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def ask(self, model: str, seed: int) -> None:
        random = np.random.default_rng(seed)
        while not self.ended.is_set():
            inputs = CASES[model].make(random, int(random.integers(1, 5)))
            try:
                reply = self.server.infer(model, *wire.arrays(inputs))
                self.check(model, reply, inputs)
            except Exception as error:  # noqa: BLE001: whatever fails is an answer that is wrong
                self.wrong.append(f"{model}: {error!r}")

    def check(self, model: str, reply: wire.Reply, inputs: dict[str, np.ndarray]) -> None:
        if reply.status in AWAY:
            self.refusals[model] += 1
            # A refusal takes no time, so that clients would do little else.
            self.ended.wait(0.02)
            return
        assert reply.status == 200, reply
        right = CASES[model].answer(**inputs)
        got = list(reply.arrays().values())
        assert len(got) == len(right), reply
        for ours, theirs in zip(got, right):
            np.testing.assert_array_equal(ours, theirs)
        self.answers[model] += 1


def control(server: Server, model: str, verb: str) -> None:
    reply = server.call("POST", f"/v2/repository/models/{model}/{verb}", timeout=120)
    assert reply.status == 200, (model, verb, reply)


def memory(server: Server) -> dict[str, float]:
    """Returns the bytes that the server holds, in host memory and on a GPU."""
    return {"host": server.allocated_bytes(), "gpu": server.metric("weir_runtime_gpu_reserved_bytes")}


def growth(samples: list[tuple[float, float]]) -> float:
    """Returns the growth over the time of the samples, pairs of time and bytes, by their line of least squares."""
    times, values = np.array(samples).T
    return float(np.polyfit(times - times[0], values, 1)[0] * (times[-1] - times[0]))


def reload_all(server: Server) -> list[tuple[float, dict[str, float]]]:
    """Unloads and loads each model in turn until the time is over. Returns the memory after each round."""
    samples, begun = [], time.monotonic()
    while (elapsed := time.monotonic() - begun) < SECONDS or len(samples) < 6:
        samples.append((elapsed, memory(server)))
        for model in CASES:
            control(server, model, "unload")
            control(server, model, "load")
    return samples


@pytest.mark.skipif(SECONDS <= 0, reason="WEIR_RELOAD_SECONDS is 0")
def test_reloads_under_load_cost_no_answer_and_no_memory(tmp_path) -> None:
    options = ["--model-control-mode=explicit", *(f"--load-model={model}" for model in CASES)]
    server = Server(tmp_path / "log", [repository(tmp_path / "models")], options, device="auto").start()
    with Load(server) as load:
        samples = reload_all(server)
    kept = [sample for sample in samples if sample[0] >= WARM * samples[-1][0]]
    grown = {kind: growth([(at, held[kind]) for at, held in kept]) for kind in ("host", "gpu")}
    print(f"{len(samples)} rounds, answers {dict(load.answers)}, refused {dict(load.refusals)}")
    print("MiB at the start, when warm and at the end", *(
        {kind: round(value / 2**20, 1) for kind, value in held.items()} for _, held in (samples[0], kept[0], samples[-1])
    ), "growth when warm", {kind: round(value / 2**20, 2) for kind, value in grown.items()})
    assert load.wrong == []
    assert all(load.answers[model] > 0 for model in CASES), load.answers
    assert all(value <= MOST_GROWTH for value in grown.values()), (grown, samples)
    server.stop()
