"""Folders of model files without a configuration, TorchServe's archives, and models that may not contain code."""

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from server import Server
from wire import request, tensor

MODELS = Path(__file__).resolve().parent.parent / "models"
EXPORTED = MODELS / "exported" / "mlp.pt2"
SCRIPT = MODELS / "zoo" / "mlp" / "1" / "model.pt"
WEIGHTS = MODELS / "foreign" / "state_dict.pt"


def archive(path: Path, model: Path, **manifest: str) -> None:
    """Writes a TorchServe archive like `torch-model-archiver`."""
    described = {"runtime": "python", "model": {"modelName": path.stem, "serializedFile": model.name, **manifest}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.write(model, model.name)
        out.writestr("handler.py", "raise SystemExit('this must never run')")
        out.writestr("MAR-INF/MANIFEST.json", json.dumps(described))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files") / "models"
    folder.mkdir()
    shutil.copy(EXPORTED, folder / "exported.pt2")
    shutil.copy(SCRIPT, folder / "script.pt")
    archive(folder / "served.mar", SCRIPT, handler="image_classifier")
    archive(folder / "program.mar", EXPORTED, handler="handler.py")
    (folder / "README.md").write_text("Models of the team.")
    return folder


@pytest.fixture(scope="module")
def server(folder):
    running = Server(folder.with_name("log"), [folder]).start()
    yield running
    running.stop()


@pytest.mark.parametrize("model", ["exported", "script", "served", "program"])
def test_each_file_is_served_by_its_name(server, model):
    assert server.call("GET", f"/v2/models/{model}/ready").status == 200
    described = server.call("GET", f"/v2/models/{model}").json()["inputs"][0]
    shape = [2, *described["shape"][1:]]
    x = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32)
    assert server.infer(model, request(tensor(described["name"], "FP32", shape, x.tolist()))).status == 200


def test_notes_name_the_steps_of_a_handler(server):
    text = server.log.read_text()
    assert "the handler image_classifier does not run: decoding, cropping and normalising an image" in text
    assert "the handler 'handler.py' does not run" in text


def test_files_that_cannot_be_served_are_all_named(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(WEIGHTS, models / "optimiser.pt")
    archive(models / "eager.mar", WEIGHTS, modelFile="net.py", handler="image_classifier")
    shutil.copy(SCRIPT, models / "script.pt")
    server = Server(tmp_path / "log", [models]).spawn()
    assert server.exit_code(20) == 1
    text = server.log.read_text()
    assert "optimiser.pt' is a state_dict or checkpoint" in text
    assert "eager.mar' is a TorchServe archive (.mar) of weights for a class in Python ('net.py')" in text
    assert text.count("torch.export.save the result") >= 2


def test_code_can_be_forbidden(tmp_path, folder):
    flags = ["--model-code=forbid", "--exit-on-error=false", "--strict-readiness=false"]
    server = Server(tmp_path / "log", [folder], flags).start()
    ready = {name: server.call("GET", f"/v2/models/{name}/ready").status == 200
             for name in ["exported", "program", "script", "served"]}
    assert ready == {"exported": True, "program": True, "script": False, "served": False}
    text = server.log.read_text()
    assert "is TorchScript, which is code: in Python, torch.export.export the original module" in text
    assert "This server loads no code (--model-code=forbid)" in text
    server.stop()


def test_an_inspection_describes_every_file(server, folder):
    done = subprocess.run([server.command[0], "inspect", folder, "--json"], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = {one["model"]: one for one in json.loads(done.stdout)}
    assert found["exported"]["batching"] == "the graph proves that the rows are independent"
    assert {name: one["is_code"] for name, one in found.items()} == {
        "exported": False, "program": False, "script": True, "served": True,
    }
    assert found["script"]["parameters"] == 163 and found["script"]["bytes"] == 652
    assert "image_classifier does not run" in found["served"]["notes"][0]


def test_an_inspection_names_the_operator_that_mixes_rows_or_the_reason_of_a_refusal(server):
    def inspect(path: Path) -> subprocess.CompletedProcess:
        return subprocess.run([server.command[0], "inspect", path], capture_output=True, text=True, timeout=60)

    coupled = inspect(MODELS / "exported" / "centred.pt2")
    assert coupled.returncode == 0
    assert "each request alone: operator aten::mean.dim at 'mean' mixes the rows of a batch" in coupled.stdout
    counter = inspect(MODELS / "exported" / "counter.pt2")
    assert counter.returncode == 1 and "changes 'count'" in counter.stdout
    weights = inspect(WEIGHTS)
    assert weights.returncode == 1 and "is a state_dict or checkpoint" in weights.stdout
