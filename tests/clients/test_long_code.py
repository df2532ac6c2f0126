"""Models of thousands of operations, such as traces of loops: libtorch compiles them by recursion."""

import shutil
import zipfile
from pathlib import Path

import pytest

import wire
from server import GOOD, Server

# PyTorch runs this many operations in Python; threads with Rust's default stack of 2 MiB do not.
STEPS = 8000

CODE = """\
class Double(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(self: __torch__.Double,
    INPUT0: Tensor) -> Tensor:
    v0 = torch.mul(INPUT0, 2)
{steps}
    return v{last}
"""


def lengthen(path: Path) -> None:
    """Changes a model that doubles its input so that it adds one to the result, STEPS times."""
    steps = "\n".join(f"    v{n + 1} = torch.add(v{n}, 1)" for n in range(STEPS))
    code = CODE.format(steps=steps, last=STEPS)
    with zipfile.ZipFile(path) as whole:
        records = {name: whole.read(name) for name in whole.namelist()}
    with zipfile.ZipFile(path, "w") as changed:
        for name, data in records.items():
            changed.writestr(zipfile.ZipInfo(name), code if name.endswith("__torch__.py") else data)


@pytest.fixture(params=["configured", "inferred"])
def server(tmp_path, request) -> Server:
    model = tmp_path / "models" / "nobatch"
    shutil.copytree(GOOD / "nobatch", model)
    lengthen(model / "1" / "model.pt")
    if request.param == "inferred":
        (model / "config.pbtxt").unlink()
    server = Server(tmp_path / "log", [tmp_path / "models"]).start()
    yield server
    server.stop()


def test_a_model_of_thousands_of_operations_is_served(server) -> None:
    shape = server.call("GET", "/v2/models/nobatch").json()["inputs"][0]["shape"]
    shape = [4] if len(shape) == 1 else [1, 4]
    for values in ([1.0, 2.0, 3.0, 4.0], [0.5, 0.0, -1.0, 8.0]):
        reply = server.infer("nobatch", wire.request(wire.tensor("INPUT0", "FP32", shape, values)))
        (output,) = reply.outputs().values()
        assert output["data"] == [2 * value + STEPS for value in values]
