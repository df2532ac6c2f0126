"""Serves the ONNX files of a folder without a configuration, and compares the answers with onnxruntime's in Python.

    pip download --no-deps rapidocr-onnxruntime magika silero-vad nudenet ddddocr     # files that others made
    WEIR_RUNTIME=target/debug/weir-runtime .venv/bin/python tests/scenarios/onnx_files.py FOLDER

A variable first dimension takes 1, 2 and 3 rows; another variable dimension takes 64, or the size in `SIZES`. The program
prints what is not served and what differs by more than 1e-5 of the largest element, and fails if an answer differs.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

CLIENTS = Path(__file__).resolve().parent.parent / "clients"
sys.path.insert(0, str(CLIENTS))

import server as servers  # noqa: E402
from model_files import LENIENT, ask, assert_same  # noqa: E402
from server import Server  # noqa: E402

# Sizes of variable dimensions besides the first, by part of a file's name and by input.
SIZES = {
    ("_rec_", "x"): [3, 48, 320],
    ("_cls_", "x"): [3, 48, 192],
    ("silero_vad_16k", "input"): [512],
    ("silero_vad", "input"): [576],
}
TYPES = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "int64": np.int64, "int32": np.int32, "bool": bool,
    "string": object,
}
WORDS = ["good film", "bad film", "very good"]
servers.START_DEADLINE = 900.0


def shape_of(model: str, tensor, rows: int) -> list[int]:
    """Returns sizes for an input. The state of silero-vad has the rows in its second dimension."""
    if tensor.name == "state":
        return [2, rows, 128]
    known = next((sizes for (part, name), sizes in SIZES.items() if part in model and name == tensor.name), None)
    sizes = list(tensor.shape)
    for at, size in enumerate(sizes):
        if not isinstance(size, int):
            sizes[at] = rows if at == 0 else known[at - 1] if known and at <= len(known) else 64
    return sizes


def inputs_of(model: str, session, rows: int) -> dict[str, np.ndarray]:
    random, found = np.random.default_rng(rows), {}
    for tensor in session.get_inputs():
        shape, kind = shape_of(model, tensor, rows), TYPES[tensor.type.removeprefix("tensor(").removesuffix(")")]
        if kind is object:
            values = random.choice(WORDS, shape)
        else:
            values = random.integers(0, 9, shape) if np.issubdtype(kind, np.integer) else random.standard_normal(shape)
        # The rate of a sound is a number that the net compares.
        found[tensor.name] = np.full(shape, 16000, kind) if tensor.name == "sr" else np.asarray(values).astype(kind)
    return found


def failure(server: Server, model: str, session) -> str:
    """Returns the first difference from onnxruntime's answers, or nothing."""
    first = session.get_inputs()[0].shape
    batches = (1, 2, 3) if first and not isinstance(first[0], int) else (1,)
    for rows in batches:
        inputs = inputs_of(model, session, rows)
        names = [output.name for output in session.get_outputs()]
        try:
            assert_same(ask(server, model, inputs), dict(zip(names, session.run(names, inputs))))
        except AssertionError as error:
            return f"{rows} rows: " + (" ".join(str(error).split())[:300] or "the outputs differ")
    return ""


def main() -> int:
    files = {path.stem: path for path in sorted(Path(sys.argv[1]).glob("*.onnx"))}
    equal = different = 0
    with tempfile.TemporaryDirectory() as temporary:
        repository = Path(temporary) / "models"
        for name, path in files.items():
            (repository / name / "1").mkdir(parents=True)
            (repository / name / "1" / "model.onnx").symlink_to(path.resolve())
        server = Server(Path(temporary) / "log", [repository], LENIENT).start()
        rows = server.call("POST", "/v2/repository/index").json()
        reasons = {row["name"]: row.get("reason", "") for row in rows if row["state"] != "READY"}
        for name, path in files.items():
            if name in reasons:
                print(f"{name} is not served: {reasons[name]}")
                continue
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            what = failure(server, name, session)
            most = server.call("GET", f"/v2/models/{name}/config").json()["max_batch_size"]
            print(f"{name}: {what or 'equal'} (largest batch {most})", flush=True)
            equal, different = equal + (not what), different + bool(what)
        server.stop()
    print(f"{len(files)} files: {equal + different} served, {equal} equal")
    return different


if __name__ == "__main__":
    sys.exit(main() > 0)
