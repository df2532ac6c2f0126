"""Writes `foreign`: files that users mistake for TorchScript models, one of each kind.

    pip install torch==2.11.0 safetensors==0.8.0 onnx==1.23.2 numpy && python foreign.py

The files are committed, so that running the tests needs none of these packages.
"""

import gzip
import pickle
import shutil
import tarfile
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from safetensors.torch import save_file
from torch import nn

FOREIGN = Path(__file__).resolve().parent / "foreign"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"


def main() -> None:
    shutil.rmtree(FOREIGN, ignore_errors=True)
    FOREIGN.mkdir()
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    weights = module.state_dict()
    torch.save(weights, FOREIGN / "state_dict.pt")
    torch.save({"epoch": 3, "model": weights}, FOREIGN / "checkpoint.pt")
    torch.save(weights, FOREIGN / "state_dict_of_2019.pt", _use_new_zipfile_serialization=False)
    torch.save(module, FOREIGN / "module.pt")
    torch.save({"epoch": 3, "model": module}, FOREIGN / "module_in_checkpoint.pt")
    torch.save(torch.zeros(3), FOREIGN / "tensor.pt")
    save_file(weights, FOREIGN / "model.safetensors")
    relu = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    onnx.save(helper.make_model(relu, producer_name="pytorch"), FOREIGN / "model.onnx")
    (FOREIGN / "plain.pkl").write_bytes(pickle.dumps(Fraction(1, 3)))
    (FOREIGN / "lfs_pointer.pt").write_text(LFS)
    (FOREIGN / "page.pt").write_text("<!DOCTYPE html>\n<html><body>Sign in</body></html>\n")
    (FOREIGN / "error.pt").write_text("<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>\n")
    (FOREIGN / "keras.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    (FOREIGN / "saved_model.pb").write_bytes(b"\x08\x01\x12\x20" + bytes(32))
    (FOREIGN / "engine.plan").write_bytes(b"ftrt" + bytes(60))
    (FOREIGN / "model.gguf").write_bytes(b"GGUF\x03" + bytes(60))
    (FOREIGN / "empty.pt").write_bytes(b"")
    np.savez(FOREIGN / "arrays.npz", x=np.zeros(3))
    with zipfile.ZipFile(FOREIGN / "served.mar", "w") as archive:
        archive.writestr("MAR-INF/MANIFEST.json", "{}")
        archive.writestr("model.pt", b"")
    with zipfile.ZipFile(FOREIGN / "packed.zip", "w") as archive:
        archive.writestr("folder/model.pt", b"x" * 64)
    with gzip.open(FOREIGN / "model.pt.gz", "wb") as archive:
        archive.write(b"x" * 64)
    with tarfile.open(FOREIGN / "model.tar", "w") as archive:
        archive.add(FOREIGN / "empty.pt", "model.pt")
    whole = (FOREIGN / "state_dict.pt").read_bytes()
    (FOREIGN / "cut_off.pt").write_bytes(whole[: len(whole) // 2])


if __name__ == "__main__":
    main()
