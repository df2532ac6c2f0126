"""Creates the models that the runtime is measured with, in target/bench/models.

    add_sub    sum and difference of two vectors of 16: nothing but the server's own work
    mlp        784-512-512-10: faster in batches on any processor
    resnet18   images of 224 x 224: large requests
    bert       6 layers of 384 (the shape of MiniLM), 128 tokens: long inference times

The weights are random, from fixed seeds. `make bench-models` runs this script in its own environment.

    repository/NAME/config.pbtxt, repository/NAME/1/model.pt    files for the servers
    tensors/NAME/TENSOR    one row of each input, and the model's outputs for it, little-endian
    models.json            names, types and dimensions of all tensors
"""

import json
import shutil
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

OUT = Path(__file__).resolve().parents[2] / "target" / "bench" / "models"
MAX_BATCH = 32
TOKENS = 128
TYPES = {torch.float32: "FP32", torch.int64: "INT64"}

CONFIG = """\
name: "{name}"
platform: "pytorch_libtorch"
max_batch_size: {max_batch}
{tensors}
instance_group [ {{ count: 1 kind: KIND_CPU }} ]
dynamic_batching {{ }}
"""


class AddSub(nn.Module):
    """The model of Triton's own examples."""

    def forward(self, INPUT0: Tensor, INPUT1: Tensor):
        return INPUT0 + INPUT1, INPUT0 - INPUT1


class Mlp(nn.Module):
    """Two hidden layers of 512."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))

    def forward(self, INPUT0: Tensor) -> Tensor:
        return self.layers(INPUT0)


class Block(nn.Module):
    """Two convolutions and a shortcut around them."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        around = [nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width)]
        self.around = nn.Sequential(*(around if stride > 1 else []))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.around(x))


class ResNet18(nn.Module):
    """ResNet-18 as in the paper, with a thousand classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        widths = [64, 64, 128, 256, 512]
        self.blocks = nn.Sequential(*(
            block for i, (before, width) in enumerate(zip(widths, widths[1:]))
            for block in (Block(before, width, 2 if i else 1), Block(width, width, 1))))
        self.head = nn.Linear(512, 1000)

    def forward(self, INPUT0: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(INPUT0)).mean((2, 3)))


class Layer(nn.Module):
    """An encoder layer: attention over 12 heads, then the feed-forward part."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.wide = nn.Linear(width, inner)
        self.narrow = nn.Linear(inner, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (12, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + self.mixed(y.transpose(1, 2).flatten(2)))
        return self.norm2(x + self.narrow(F.gelu(self.wide(x))))


class Bert(nn.Module):
    """Maps tokens and their mask to an embedding of length 1, with the sizes of MiniLM-L6."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30522, 384)
        self.places = nn.Embedding(512, 384)
        self.norm = nn.LayerNorm(384)
        self.layers = nn.ModuleList(Layer(384, 1536) for _ in range(6))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        places = torch.arange(input_ids.shape[1])
        x = self.norm(self.words(input_ids) + self.places(places))
        mask = attention_mask[:, None, None, :] > 0
        for layer in self.layers:
            x = layer(x, mask)
        weight = attention_mask.to(x.dtype).unsqueeze(-1)
        return F.normalize((x * weight).sum(1) / weight.sum(1), dim=-1)


def models() -> dict:
    """Returns, by name, the model, its inputs for one row, and the names of its outputs."""
    tokens = torch.randint(0, 30522, (1, TOKENS))
    mask = torch.ones(1, TOKENS, dtype=torch.int64)
    mask[:, TOKENS * 3 // 4:] = 0
    return {
        "add_sub": (AddSub(), {"INPUT0": torch.rand(1, 16), "INPUT1": torch.rand(1, 16)},
                    ["OUTPUT0", "OUTPUT1"]),
        "mlp": (Mlp(), {"INPUT0": torch.rand(1, 784)}, ["OUTPUT0"]),
        "resnet18": (ResNet18(), {"INPUT0": torch.rand(1, 3, 224, 224)}, ["OUTPUT0"]),
        "bert": (Bert(), {"input_ids": tokens, "attention_mask": mask}, ["OUTPUT0"]),
    }


def config(name: str, inputs: dict, outputs: dict) -> str:
    def entry(key: str, tensor: str, value: Tensor) -> str:
        dims = ", ".join(str(dim) for dim in value.shape[1:])
        kind = f"TYPE_{TYPES[value.dtype]}"
        return f'{key} [ {{ name: "{tensor}" data_type: {kind} dims: [ {dims} ] }} ]'

    lines = [entry("input", *item) for item in inputs.items()]
    lines += [entry("output", *item) for item in outputs.items()]
    return CONFIG.format(name=name, max_batch=MAX_BATCH, tensors="\n".join(lines))


def strip(path: Path) -> None:
    """Removes debug records, which contain folder names of the machine that created the file."""
    stripped = path.with_suffix(".stripped")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(stripped, "w", zipfile.ZIP_STORED) as new:
        for info in old.infolist():
            if info.filename.endswith(".debug_pkl"):
                continue
            # The time is fixed, so that the same weights make the same file.
            new.writestr(zipfile.ZipInfo(info.filename), old.read(info))
    stripped.replace(path)


def describe(folder: Path, tensors: dict) -> list:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in tensors.items():
        (folder / name).write_bytes(value.contiguous().numpy().tobytes())
    return [{"name": name, "datatype": TYPES[value.dtype], "shape": list(value.shape)}
            for name, value in tensors.items()]


def make(name: str, model: nn.Module, inputs: dict, output_names: list) -> dict:
    version = OUT / "repository" / name / "1"
    version.mkdir(parents=True)
    path = version / "model.pt"
    with torch.inference_mode():
        traced = torch.jit.trace(model.eval(), tuple(inputs.values()), check_trace=False)
        traced.save(path)
        strip(path)
        result = torch.jit.load(path)(*inputs.values())
        # A value that depends on the number of rows would have been traced as a constant.
        twice = torch.jit.load(path)(*(value.repeat(2, *[1] * (value.dim() - 1)) for value in inputs.values()))
    results = result if isinstance(result, tuple) else (result,)
    seconds = twice if isinstance(twice, tuple) else (twice,)
    for one, two in zip(results, seconds):
        torch.testing.assert_close(two[1:], one, atol=1e-4, rtol=1e-4)
    outputs = dict(zip(output_names, results))
    (version.parent / "config.pbtxt").write_text(config(name, inputs, outputs))
    tensors = OUT / "tensors" / name
    return {"inputs": describe(tensors, inputs), "outputs": describe(tensors, outputs)}


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    # There is one seed for all models, so their order in models() must not change.
    torch.manual_seed(20260101)
    manifest = {name: make(name, *parts) for name, parts in models().items()}
    (OUT / "models.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"made {', '.join(manifest)} in {OUT.relative_to(OUT.parents[2])}")


if __name__ == "__main__":
    main()
