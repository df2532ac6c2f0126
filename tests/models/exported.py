"""Writes the models of `exported`: programs of torch.export, and PyTorch's answers to batches of them.

    pip install torch==2.11.0 && python exported.py
    pip install torch==2.8.0 && python exported.py release     # torch_2_8.pt2; also with later releases

Each model is `NAME.pt2`, and `NAME.npz` has the tensors `B/in/INPUT` and `B/out/OUTPUT` of batches of B rows. The files
are committed, so that running the tests needs no PyTorch.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops import while_loop

HERE = Path(__file__).resolve().parent / "exported"

# Largest batch of the exported programs.
MOST = 16


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, stride=2, groups=2),
            nn.GroupNorm(2, 8),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(8, 5)

    def forward(self, image):
        return self.head(torch.flatten(self.body(image), 1)).softmax(-1)


class Encoder(nn.Module):
    """A transformer over token ids with a padding mask and a variable length."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(50, 16)
        self.positions = nn.Embedding(64, 16)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
        self.head = nn.Linear(16, 3)

    def forward(self, input_ids, attention_mask):
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1], device=input_ids.device))
        x = self.layers(x, src_key_padding_mask=attention_mask == 0)
        weights = attention_mask.unsqueeze(-1).float()
        pooled = (x * weights).sum(1) / weights.sum(1).clamp(min=1e-6)
        return {"logits": self.head(pooled), "hidden": x}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, n, 8))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        y, (h, _) = self.lstm(x)
        return self.head(y[:, -1]), h[-1]


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(30, 8, mode="mean")
        self.head = nn.Linear(8, 2)

    def forward(self, ids):
        return self.head(self.bag(ids))


class Recommender(nn.Module):
    """Several inputs of different types, in a dict."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(20, 4), nn.Embedding(30, 4)
        self.head = nn.Linear(11, 1)

    def forward(self, batch):
        parts = [self.users(batch["user"]), self.items(batch["item"]), batch["features"]]
        return {"score": self.head(torch.cat(parts, dim=1)).squeeze(-1)}


class Numbers(nn.Module):
    """Numbers in place of tensors, constants and tensors made in forward."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]), persistent=False)
        self.shift = torch.tensor([0.5])

    def forward(self, x):
        mask = torch.ones(x.shape[0], 3, dtype=torch.bool)
        y = torch.where(x > 0, x * self.scale + self.shift, x / 2)
        return y.masked_fill(~mask, float("-inf")) + torch.zeros_like(x), (x * 2).to(torch.int64)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ELU())
        self.up = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(4, 1, 3, padding=1))

    def forward(self, x):
        return torch.sigmoid(self.up(self.down(x)))


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(5, 7, batch_first=True)

    def forward(self, x, state):
        y, h = self.gru(x, state.unsqueeze(0))
        return {"y": y.mean(1), "state": h.squeeze(0)}


class Norm(nn.Module):
    """Instance norm, layer norm, top-k and gather."""

    def __init__(self):
        super().__init__()
        self.norm, self.layer = nn.InstanceNorm1d(4, affine=True), nn.LayerNorm(6)

    def forward(self, x):
        y = self.layer(self.norm(x))
        best, at = y.topk(2, dim=-1)
        return best, at, torch.gather(x, 2, at)


class Centred(nn.Module):
    """Coupled: subtracts the mean of the batch."""

    def forward(self, x):
        return x - x.mean(0, keepdim=True)


class Share(nn.Module):
    """Coupled: divides by the number of rows."""

    def forward(self, x):
        return x / x.shape[0]


class Mixer(nn.Module):
    """Coupled: attention over the batch, as of a layer without batch_first."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16)

    def forward(self, x):
        return self.layer(x)


class Fixed(nn.Module):
    """No batch dimension: all sizes are fixed."""

    def forward(self, x, y):
        return x @ y


class Even(nn.Module):
    """Takes an even length only."""

    def forward(self, x):
        b, n, _ = x.shape
        return x.reshape(b, n // 2, 6).sum(-1)


class Ungraded(nn.Module):
    """A part without gradients. With the length of its name, a directory in the archive looks shifted."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        with torch.no_grad():
            y = self.body(x).relu()
            scale = y.amax(1, keepdim=True) + 1
        return self.head(y / scale)


class Release(nn.Module):
    """Parameters, buffers and constants of two types, as each release of torch stores them."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)
        self.register_buffer("order", torch.tensor([2, 0, 1]), persistent=False)
        self.shift = torch.tensor([0.5])

    def forward(self, x):
        return {"y": self.norm(self.layer(x))[:, self.order] + self.shift}


class Condition(nn.Module):
    """The rows decide together which branch runs."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


class Branches(nn.Module):
    """The length of the sequence decides which branch runs, and a weight decides inside of it."""

    def __init__(self):
        super().__init__()
        self.window, self.word = nn.Conv1d(4, 4, 3, padding=1), nn.Linear(4, 4)
        self.register_buffer("gain", torch.tensor([0.5, -2.0]))

    def forward(self, x):
        def long(x):
            windows = self.window(x.mT).mT.contiguous()
            halved = lambda y: (y * self.gain[0]).relu()  # noqa: E731
            return torch.cond(self.gain.sum() > 0, lambda y: y.exp(), halved, (windows,)), windows.sum(1)

        def short(x):
            words = self.word(x)
            return words.relu() + words, words.amax(1)

        every, pooled = torch.cond(x.shape[1] > 5, long, short, (x,))
        return {"every": every + x, "pooled": pooled}


class Model(NamedTuple):
    module: nn.Module
    # Makes the arguments for a number of rows.
    arguments: object
    # For each argument, the dimensions that vary besides that of the batch.
    varying: tuple = ()
    batched: bool = True


def floats(*shape):
    return lambda rows: (torch.randn(rows, *shape),)


def lengths(width):
    """Sequences whose length depends on the number of rows."""
    return lambda rows: (torch.randn(rows, 4 + rows % 4, width),)


def tokens(rows):
    mask = torch.ones(rows, 6, dtype=torch.int64)
    mask[::2, 4:] = 0
    return torch.randint(0, 50, (rows, 6)), mask


def recommended(rows):
    ids = {"user": torch.randint(0, 20, (rows,)), "item": torch.randint(0, 30, (rows,))}
    return ({**ids, "features": torch.randn(rows, 3)},)


MODELS = {
    "mlp": Model(Mlp(), floats(8)),
    "cnn": Model(Cnn(), floats(3, 12, 12)),
    "encoder": Model(Encoder(), tokens, ({1: "length"}, {1: "length"})),
    "attention": Model(Attention(), floats(6, 8), ({1: "length"},)),
    "lstm": Model(Lstm(), floats(5, 6)),
    "bag": Model(Bag(), lambda rows: (torch.randint(0, 30, (rows, 4)),)),
    "recommender": Model(Recommender(), recommended),
    "numbers": Model(Numbers(), floats(3)),
    "autoencoder": Model(Autoencoder(), floats(1, 8, 8)),
    "gru": Model(Gru(), lambda rows: (torch.randn(rows, 4, 5), torch.randn(rows, 7))),
    "norm": Model(Norm(), floats(4, 6)),
    "centred": Model(Centred(), floats(4)),
    "share": Model(Share(), floats(4)),
    "mixer": Model(Mixer(), floats(3, 8)),
    "fixed": Model(Fixed(), lambda rows: (torch.randn(2, 3), torch.randn(3, 4)), batched=False),
    "even": Model(Even(), floats(4, 3), ({1: "even"},)),
    "ungraded": Model(Ungraded(), floats(6)),
    "condition": Model(Condition(), floats(4)),
    "branches": Model(Branches(), lengths(4), ({1: "length"},)),
}


class Counter(nn.Module):
    """Refused: keeps a count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return x + self.count


class Cache(nn.Module):
    """Refused: writes to a part of a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(3, 4))

    def forward(self, x):
        self.cache[:1].copy_(x[:1])
        return x + self.cache.sum(0)


class Lists(nn.Module):
    """Loads, and is refused when it runs: adds to a weight through a view of it in a list of tensors."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sums", torch.zeros(2, 2))

    def forward(self, x):
        torch._foreach_add_([self.sums.reshape(-1)], [x[0]])
        return x + self.sums.reshape(-1)


class Loop(nn.Module):
    """Refused: repeats a subgraph."""

    def forward(self, x):
        return while_loop(lambda x: x.abs().max() > 1, lambda x: (x / 2,), (x,))[0]


REFUSED = {"counter": Counter(), "cache": Cache(), "lists": Lists(), "loop": Loop()}


def flat(values, prefix):
    """Returns the tensors of a nested value with their names as the server gives them."""
    if isinstance(values, dict):
        return dict(values)
    values = values if isinstance(values, (tuple, list)) else (values,)
    return {f"{prefix}{index}": value for index, value in enumerate(values)}


def shapes(model: Model, arguments):
    batch = torch.export.Dim("batch", min=1, max=MOST)
    named = {"length": torch.export.Dim.AUTO, "even": 2 * torch.export.Dim("half", min=2, max=16)}
    found = []
    for index, argument in enumerate(arguments):
        own = model.varying[index] if index < len(model.varying) else {}
        dims = {0: batch} | {axis: named[name] for axis, name in own.items()}
        found.append({key: dims for key in argument} if isinstance(argument, dict) else dims)
    return tuple(found)


def save(name: str, program) -> None:
    """Writes a program without the lines of code that its nodes come from."""
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    for node in (node for graph in graphs for node in graph.nodes):
        node.meta.pop("stack_trace", None)
    torch.export.save(program, HERE / f"{name}.pt2")


def write(name: str, model: Model) -> None:
    module = model.module.eval()
    example = model.arguments(2)
    dynamic = shapes(model, example) if model.batched else None
    program = torch.export.export(module, example, dynamic_shapes=dynamic)
    save(name, program)
    names = list(torch.export.load(HERE / f"{name}.pt2").graph_signature.user_inputs)
    answers = {}
    for rows in (1, 2, 7, MOST) if model.batched else (1,):
        arguments = model.arguments(rows)
        with torch.no_grad():
            outputs = flat(module(*arguments), "OUTPUT__")
        inputs = arguments[0] if isinstance(arguments[0], dict) else dict(zip(names, arguments))
        for key, tensor in inputs.items():
            answers[f"{rows}/in/{key}"] = tensor.numpy()
        for key, tensor in outputs.items():
            answers[f"{rows}/out/{key}"] = tensor.numpy()
    np.savez_compressed(HERE / f"{name}.npz", **answers)


def main() -> None:
    # The fast path of attention fills padding with zeros, which the exported program does not.
    torch.backends.mha.set_fastpath_enabled(False)
    torch.manual_seed(0)
    HERE.mkdir(exist_ok=True)
    if sys.argv[1:] == ["release"]:
        write("torch_" + "_".join(torch.__version__.split(".")[:2]), Model(Release(), floats(4)))
        return
    chosen = lambda models: {name: models[name] for name in sys.argv[1:] or models if name in models}  # noqa: E731
    for name, model in chosen(MODELS).items():
        write(name, model)
    for name, module in chosen(REFUSED).items():
        save(name, torch.export.export(module.eval(), (torch.randn(2, 4),)))


if __name__ == "__main__":
    main()
