"""Writes the toy encoder and its sample input: `pip install torch==2.11.0 && python make.py`."""

import io
import json
import zipfile
from pathlib import Path
from typing import Tuple

import torch
from torch import Tensor, nn

SEED = 11
VOCABULARY = 32

EXAMPLE = Path(__file__).resolve().parent.parent
MODEL = EXAMPLE / "weir-examples" / "ragged" / "1" / "model.pt"
INPUT = EXAMPLE / "inputs" / "five-tokens.json"


class Ragged(nn.Module):
    """Returns the mean of the unmasked tokens' vectors, and four numbers for each token.

    The mean depends on padding only through the mask, and the numbers do not depend on padding at all. Therefore the
    right answer to a padded request is the answer to the unpadded one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(VOCABULARY, 8)
        self.narrow = nn.Linear(8, 4)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
        vectors = self.vectors(tokens)
        weights = mask.unsqueeze(-1)
        mean = (vectors * weights).sum(1) / weights.sum(1).clamp(min=1.0)
        return mean, torch.tanh(self.narrow(vectors))


def save(model: torch.jit.ScriptModule, path: Path) -> None:
    """Saves the model without its debug records, which contain folder names of the machine that ran this script."""
    buffer = io.BytesIO()
    torch.jit.save(model, buffer)
    with zipfile.ZipFile(buffer) as whole, zipfile.ZipFile(path, "w") as kept:
        for entry in whole.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                kept.writestr(zipfile.ZipInfo(entry.filename), whole.read(entry))


def main() -> None:
    torch.manual_seed(SEED)
    MODEL.parent.mkdir(parents=True, exist_ok=True)
    save(torch.jit.script(Ragged().eval()), MODEL)
    inputs = [
        {"name": "tokens", "shape": [1, 5], "datatype": "INT64", "data": [3, 1, 4, 1, 5]},
        {"name": "mask", "shape": [1, 5], "datatype": "FP32", "data": [1, 1, 1, 1, 1]},
    ]
    INPUT.parent.mkdir(parents=True, exist_ok=True)
    INPUT.write_text(json.dumps({"inputs": inputs}) + "\n")


if __name__ == "__main__":
    main()
