"""Models that are files, served without a configuration, and their answers beside those of the library that made them."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterable

import numpy as np

import wire
from server import Server

LENIENT = ["--exit-on-error=false", "--strict-readiness=false"]
# Largest difference by datatype, as a part of the largest element.
TOLERANCE = {"float16": 1e-3}


def place(file: Path, folder: Path, model: str) -> None:
    """Copies a file to where the repository `folder` has version 1 of the model."""
    (folder / model / "1").mkdir(parents=True)
    shutil.copy(file, folder / model / "1" / f"model{file.suffix}")


def ask(server: Server, model: str, inputs: dict[str, np.ndarray]) -> wire.Reply:
    return server.infer(model, *wire.arrays(inputs))


def assert_same(reply: wire.Reply, wanted: dict[str, np.ndarray]) -> None:
    got = reply.arrays()
    assert list(got) == list(wanted)
    for name, right in wanted.items():
        assert_close(got[name], right, name)


def assert_close(got: np.ndarray, right: np.ndarray, name: str) -> None:
    assert got.shape == right.shape, (name, got.shape, right.shape)
    if right.dtype == object:
        texts = [[text if isinstance(text, bytes) else text.encode() for text in array.flat] for array in (got, right)]
        assert texts[0] == texts[1], name
        return
    scale = np.abs(right[np.isfinite(right)].astype(np.float64)).max(initial=0) + 1e-6
    tolerance = TOLERANCE.get(right.dtype.name, 1e-5)
    np.testing.assert_allclose(got, right, rtol=0, atol=tolerance * scale, err_msg=name)


def assert_same_in_company(server: Server, model: str, requests: list[tuple[dict, dict]]) -> None:
    """Sends requests from eight clients at once, and compares each answer with its own outputs."""
    with ThreadPoolExecutor(8) as pool:
        replies = pool.map(lambda request: ask(server, model, request[0]), requests)
        for reply, (_, outputs) in zip(replies, requests):
            assert_same(reply, outputs)


def assert_signature(server: Server, model: str, inputs: str, largest_batch: int) -> None:
    """Compares the inputs of the metadata, in the form `NAME DATATYPE SHAPE, …`, and the largest batch."""
    rows = server.call("GET", f"/v2/models/{model}").json()["inputs"]
    assert ", ".join(f"{row['name']} {row['datatype']} {row['shape']}" for row in rows) == inputs
    assert config(server, model)["max_batch_size"] == largest_batch


def config(server: Server, model: str) -> dict:
    return server.call("GET", f"/v2/models/{model}/config").json()


def assert_refused(reply: wire.Reply, word: str) -> None:
    assert reply.status == 400 and re.search(rf"\b{word}\b", reply.json()["error"]), reply


def assert_served_by_path(start, folder: Path, file: Path, requests: Iterable[tuple[dict, dict]]) -> None:
    """Serves a file and a folder with only the file, each by its path."""
    shutil.copy(file, folder / f"net{file.suffix}")
    (folder / "bare").mkdir()
    shutil.copy(file, folder / "bare" / f"model{file.suffix}")
    server = start([folder / f"net{file.suffix}", folder / "bare"], "--warm-up-failures=refuse")
    for inputs, outputs in requests:
        for model in ("net", "bare"):
            assert_same(ask(server, model, inputs), outputs)


def assert_reloaded(start, folder: Path, *served: tuple[Path, tuple[dict, dict]]) -> None:
    """Replaces a served file by another. Each comes with a request of its own."""
    (before, (inputs, outputs)), (after, (later_inputs, later_outputs)) = served
    place(before, folder, "m")
    server = start([folder], "--model-control-mode=explicit", "--load-model=m")
    assert_same(ask(server, "m", inputs), outputs)
    shutil.copy(after, folder / "next")
    (folder / "next").rename(folder / "m" / "1" / f"model{after.suffix}")
    assert server.call("POST", "/v2/repository/models/m/load").status == 200
    assert_same(ask(server, "m", later_inputs), later_outputs)
