#!/usr/bin/env python3
"""Writes the TorchScript files beside it. Needs torch 2.11; run it only after a change.

    python3 generate.py
"""

import os
import zipfile
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent


class AddSub(nn.Module):
    """Sum and difference; any type, any equal shapes."""

    def forward(self, a: Tensor, b: Tensor) -> Tuple[Tensor, Tensor]:
        return a + b, a - b


class Identity(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Strings(nn.Module):
    """Each string reversed and in capitals."""

    def forward(self, texts: List[str]) -> List[str]:
        return [text.upper()[::-1] for text in texts]


class StringsIdentity(nn.Module):
    def forward(self, texts: List[str]) -> List[str]:
        return texts


class Lengths(nn.Module):
    """From strings to a tensor: how many characters each has."""

    def forward(self, texts: List[str]) -> Tensor:
        return torch.tensor([len(text) for text in texts])


class DictInput(nn.Module):
    def forward(self, inputs: Dict[str, Tensor]) -> Tensor:
        return inputs["left"] * 10 + inputs["right"]


class OptionalBias(nn.Module):
    def forward(self, x: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        if bias is not None:
            x = x + bias
        return x


class Fails(nn.Module):
    """Doubles, but raises when the first element of any row is negative."""

    def forward(self, x: Tensor) -> Tensor:
        if bool((x.select(1, 0) < 0).any()):
            raise ValueError("the first element is negative")
        return x * 2


class Slow(nn.Module):
    """About half a second of work, whatever the input; gives the input plus zero."""

    def forward(self, x: Tensor) -> Tensor:
        work = torch.full([256, 256], 0.01)
        for _ in range(600):
            work = torch.matmul(work, work) * 0.01 + 0.01
        return x + (work.sum() * 0.0)


class MaskedMean(nn.Module):
    """Mean over the positions whose mask is set: padding changes nothing."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        weight = mask.to(x.dtype)
        return (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)


class NanInf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        odd = torch.tensor([float("nan"), float("inf"), float("-inf")])
        return odd.expand(x.size(0), 3) + x[:, :1] * 0


class Hungry(nn.Module):
    """Wants more memory than there is for any negative number, and gives its input back for others."""

    def forward(self, x: Tensor) -> Tensor:
        if bool((x < 0).any()):
            x = x.new_zeros([1 << 45]).narrow(0, 0, 1).expand_as(x)
        return x


class Scalar(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum()


class InPlace(nn.Module):
    """Changes its own input, as careless models do."""

    def forward(self, x: Tensor) -> Tensor:
        x.add_(1)
        return x


class BatchMean(nn.Module):
    """Its rows depend on each other, so they must never be batched by a server."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0, keepdim=True)


class Embedding(nn.Module):
    """Scripted, takes token ids: no float can be tried on it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids).mean(1)


class Transpose(nn.Module):
    """An output that does not lie row-major in memory."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class Outputs(nn.Module):
    """A list of tensors of several types."""

    def forward(self, x: Tensor) -> List[Tensor]:
        return [x, x.to(torch.int64), x > 0]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * 8, 10))


SCRIPTED = {
    "add_sub": AddSub,
    "identity": Identity,
    "strings": Strings,
    "strings_identity": StringsIdentity,
    "lengths": Lengths,
    "dict_input": DictInput,
    "optional_bias": OptionalBias,
    "fails": Fails,
    "slow": Slow,
    "masked_mean": MaskedMean,
    "nan_inf": NanInf,
    "hungry": Hungry,
    "scalar": Scalar,
    "in_place": InPlace,
    "batch_mean": BatchMean,
    "embedding": Embedding,
    "transpose": Transpose,
    "outputs": Outputs,
    "mlp": mlp,
}


def write(module: torch.jit.ScriptModule, name: str) -> None:
    """Saves it without the debug records, which name the folders of whoever ran this."""
    path, whole = HERE / f"{name}.pt", HERE / f"{name}.whole"
    module.save(str(whole))
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                # A fixed date: the same model is the same file.
                record = zipfile.ZipInfo(entry.filename.replace(f"{name}/", "model/", 1), (1980, 1, 1, 0, 0, 0))
                target.writestr(record, source.read(entry))
    os.remove(whole)


def main() -> None:
    torch.manual_seed(3)
    for name, build in SCRIPTED.items():
        write(torch.jit.script(build().eval()), name)
    traced = torch.jit.trace(conv().eval(), torch.zeros(1, 1, 8, 8))
    write(traced, "conv_traced")
    lengths = (torch.zeros(1, 5), torch.ones(1, 5, dtype=torch.int64))
    write(torch.jit.trace(MaskedMean(), lengths), "masked_mean_traced")
    torch.save({"weight": torch.zeros(2)}, HERE / "state_dict.pt")  # no TorchScript: must be refused
    for name, inputs in (("mlp", torch.arange(32.0).reshape(2, 16) / 32), ("conv_traced", torch.ones(1, 1, 8, 8))):
        outputs = torch.jit.load(str(HERE / f"{name}.pt"))(inputs)
        print(name, [f"{value:.7f}" for value in outputs.flatten().tolist()])


if __name__ == "__main__":
    main()
