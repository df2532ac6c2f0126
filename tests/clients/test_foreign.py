"""Files that are not TorchScript: each is refused with its actual type and advice. `tests/models/foreign.py` made them.
"""

import shutil
from pathlib import Path

import pytest

from server import Server

FOREIGN = Path(__file__).resolve().parent.parent / "models" / "foreign"

# Type that the reason names for each file, and a part of its advice.
KINDS = {
    "state_dict.pt": ("a state_dict", "load_state_dict"),
    "checkpoint.pt": ("a state_dict or checkpoint", "load_state_dict"),
    "state_dict_of_2019.pt": ("a state_dict", "load_state_dict"),
    "module.pt": ("a pickled nn.Module of torch.save (torch.nn.modules.container.Sequential)", "torch.export"),
    "module_in_checkpoint.pt": ("a pickled nn.Module", "torch.export"),
    "tensor.pt": ("weights without code", "torch.export.save"),
    "model.safetensors": ("a safetensors file", "load_state_dict"),
    "model.onnx": ("an ONNX model", "onnxruntime"),
    "plain.pkl": ("a Python pickle (fractions.Fraction)", "torch.export.save"),
    "lfs_pointer.pt": ("a Git LFS pointer", "git lfs pull"),
    "page.pt": ("an HTML page", "download it again"),
    "error.pt": ("an XML text", "credentials"),
    "keras.h5": ("HDF5", "torch.export.save"),
    "saved_model.pb": ("a TensorFlow SavedModel", "torch.export.save"),
    "engine.plan": ("a TensorRT engine", "torch.export.save"),
    "model.gguf": ("a GGUF model", "torch.export.save"),
    "empty.pt": ("is empty", "copy the model again"),
    "arrays.npz": ("NumPy", "load_state_dict"),
    "served.mar": ("a TorchServe archive", "unpack it"),
    "packed.zip": ("a zip archive that holds 'folder/model.pt'", "unpack it"),
    "model.pt.gz": ("a gzip archive", "unpack it"),
    "model.tar": ("a tar archive", "unpack it"),
    "cut_off.pt": ("cut off", "copy it again"),
}


@pytest.fixture(scope="module")
def reasons(tmp_path_factory) -> dict[str, str]:
    """Returns the reason in the repository index for each file."""
    folder = tmp_path_factory.mktemp("foreign")
    for number, file in enumerate(KINDS):
        version = folder / f"m{number}" / "1"
        version.mkdir(parents=True)
        shutil.copy(FOREIGN / file, version / "model.pt")
    log = folder.with_name("foreign-log")
    # A gateway sends no requests to a server without a ready model.
    lenient = ["--exit-on-error=false", "--strict-readiness=false"]
    server = Server(log, [folder], lenient).start()
    rows = server.call("POST", "/v2/repository/index").json()
    server.stop()
    files = list(KINDS)
    return {files[int(row["name"][1:])]: row["reason"] for row in rows}


def test_every_file_is_in_the_table() -> None:
    assert sorted(KINDS) == sorted(path.name for path in FOREIGN.iterdir())


@pytest.mark.parametrize("file", KINDS)
def test_the_reason_names_the_cause_and_the_remedy(reasons, file: str) -> None:
    what, remedy = KINDS[file]
    assert what in reasons[file] and remedy in reasons[file], reasons[file]
    assert "\n" not in reasons[file]
