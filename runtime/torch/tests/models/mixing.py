#!/usr/bin/env python3
"""Writes models whose rows affect each other, each in its own way, and some that only appear to. Needs torch 2.11; run
it only after a change.

    python3 mixing.py
"""

from typing import List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from generate import HERE, write

FOLDER = HERE / "mixing"


class Centred(nn.Module):
    """Rows depend fully on each other, but the outputs are small."""

    def forward(self, y: Tensor) -> Tensor:
        return (y - y.mean(0)) * 0.01


class Offset(nn.Module):
    """Like Centred, on top of a large constant that all rows share."""

    def forward(self, y: Tensor) -> Tensor:
        return (y - y.mean(0)) * 0.1 + 100.0


class Faint(nn.Module):
    """Adds a thousandth of the mean of all rows."""

    def forward(self, y: Tensor) -> Tensor:
        return y + 0.001 * y.mean(0)


class Softmax(nn.Module):
    def forward(self, y: Tensor) -> Tensor:
        return torch.softmax(y, 0)


class Cumulative(nn.Module):
    """Adds the rows before each row."""

    def forward(self, y: Tensor) -> Tensor:
        return torch.cumsum(y, 0)


class Scaled(nn.Module):
    """Divides by the largest element of all rows."""

    def forward(self, y: Tensor) -> Tensor:
        return y / y.abs().max()


class Sorted(nn.Module):
    def forward(self, y: Tensor) -> Tensor:
        return torch.sort(y, 0)[0]


class Reversed(nn.Module):
    def forward(self, y: Tensor) -> Tensor:
        return y.flip(0)


class FromThree(nn.Module):
    """Rows depend on each other only in batches of three or more."""

    def forward(self, y: Tensor) -> Tensor:
        if y.size(0) >= 3:
            return y - y.mean(0)
        return y


class FromEight(nn.Module):
    def forward(self, y: Tensor) -> Tensor:
        if y.size(0) >= 8:
            return y + y.sum()
        return y


class Clipped(nn.Module):
    """Rows depend on each other only next to rows with large elements."""

    def forward(self, y: Tensor) -> Tensor:
        return y / torch.clamp(y.abs().max(), min=2.0)


class Beside(nn.Module):
    """Rows depend on each other only next to rows of zeros."""

    def forward(self, y: Tensor) -> Tensor:
        empty = (y.abs().sum(1) == 0).sum()
        return y * (1 + empty)


class Longest(nn.Module):
    """Returns as many columns as the largest row determines."""

    def forward(self, y: Tensor) -> Tensor:
        count = int(y.sum().item()) + 1
        return y[:, :1].repeat(1, count)


class Ranked(nn.Module):
    """Returns integers: the rank of each row among all rows."""

    def forward(self, y: Tensor) -> Tensor:
        return torch.argsort(y, 0)


class Chance(nn.Module):
    def forward(self, y: Tensor) -> Tensor:
        return y + torch.rand_like(y)


class Constant(nn.Module):
    """Returns the same output for every row, so trials cannot show whether rows are independent."""

    def forward(self, y: Tensor) -> Tensor:
        return torch.ones(y.size(0), 3)


class Extreme(nn.Module):
    """Independent rows, with infinite and NaN elements."""

    def forward(self, y: Tensor) -> Tensor:
        return torch.cat([torch.log(y - 0.5), 1.0 / (y - y), y], 1)


class Far(nn.Module):
    """Independent rows, with a large constant and a small signal."""

    def forward(self, y: Tensor) -> Tensor:
        return torch.tanh(y.sum(1, keepdim=True)) * 0.001 + 1000.0


class Strict(nn.Module):
    """Independent rows; rejects rows of zeros and large elements."""

    def forward(self, y: Tensor) -> Tensor:
        if bool((y.abs().sum(1) == 0).any()) or bool((y.abs() > 10).any()):
            raise ValueError("out of range")
        return y * 2


class Classes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8)

    def forward(self, y: Tensor) -> Tensor:
        return self.linear(y).argmax(1, keepdim=True)


class Attention(nn.Module):
    """Independent rows: a transformer layer over token ids."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        return self.layer(self.table(ids))


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0]


def conv() -> nn.Module:
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True)]
    layers += [nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)]
    return nn.Sequential(*layers)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 4))


class Half(nn.Module):
    """Takes and returns single precision, and computes in a narrower type."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner = mlp().to(dtype)
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.to(self.dtype)).to(torch.float32)


class OneHot(nn.Module):
    """Returns as many classes as the largest id of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return F.one_hot(x).float()


class UpTo(nn.Module):
    """Returns masks as long as the longest length of the batch."""

    def forward(self, lengths: Tensor) -> Tensor:
        return torch.arange(int(lengths.max())).unsqueeze(0) < lengths.view(-1, 1)


class UpToEach(nn.Module):
    """Like UpTo, but rejects trials of several lengths per row."""

    def forward(self, lengths: Tensor) -> Tensor:
        return torch.arange(int(lengths.max())).unsqueeze(0) < lengths.unsqueeze(1)


class Padded(nn.Module):
    """Returns strings as numbers, padded to the longest string of the batch."""

    def forward(self, texts: List[str]) -> Tensor:
        longest = 0
        for text in texts:
            longest = max(longest, len(text))
        codes = torch.zeros(len(texts), longest, dtype=torch.int64)
        for row, text in enumerate(texts):
            for column in range(len(text)):
                codes[row, column] = ord(text[column])
        return codes


class Unpacked(nn.Module):
    """Returns steps up to the longest length of the batch; rejects lengths above the few steps of a trial."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 5, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True)[0]


class Cut(Unpacked):
    """Returns steps up to the longest length of the batch, but no more than the input has."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.gru(x[:, : int(lengths.max())])[0]


class UnpackedTo(Unpacked):
    """Independent rows: returns as many steps as the input has."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        padded = nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=x.size(1))
        return padded[0]


class Distinct(nn.Module):
    """Returns the positions of ids among the distinct ids of the whole batch."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 4)

    def forward(self, ids: Tensor) -> Tuple[Tensor, Tensor]:
        rows, places = torch.unique(ids, return_inverse=True)
        return self.table(rows)[places], places


class Signed(nn.Module):
    """Treats all images as having pixels in [-1, 1] if one image has a negative pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out((x + 1) / 2 if bool(x.min() < 0) else x)


class Guarded(nn.Module):
    """Returns zeros for all rows if one row has NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.out(x)
        return torch.zeros_like(y) if bool(torch.isnan(x).any()) else y


class Masked(nn.Module):
    """Independent rows, with a mask whose large values turn everything into NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 4)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden = self.table(ids)
        scores = hidden @ hidden.transpose(1, 2) + ((1 - mask) * -3e38).unsqueeze(1)
        return scores.softmax(2) @ hidden


class Placed(nn.Module):
    """Independent rows, but the code names a CUDA device."""

    def forward(self, x: Tensor) -> Tensor:
        zero = torch.zeros([1], device=torch.device("cuda:0"))
        return x.to(torch.device("cpu")) + zero.to(torch.device("cpu"))


class Moved(nn.Module):
    """Names a CUDA device by a string."""

    def forward(self, x: Tensor) -> Tensor:
        return x.to("cuda").to("cpu")


class Rounded(nn.Module):
    """Returns whole numbers, which are zeros for a small row, times the largest of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        whole = x.long()
        return whole * whole.max()


class Lowest(nn.Module):
    """Returns zeros for all rows if one row has an element far below zero."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0 if bool((x < -30).any()) else x


class Seven(nn.Module):
    """Treats batches of seven rows differently."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.size(0) == 7 else x


class Averaged(nn.Module):
    """Returns the mean of all rows with the same key."""

    def forward(self, x: Tensor, key: Tensor) -> Tensor:
        same = (key.reshape(-1, 1) == key.reshape(1, -1)).to(x.dtype)
        return same @ x / same.sum(1, keepdim=True)


class Counted(nn.Module):
    """Returns how many rows are equal."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.unsqueeze(0) == x.unsqueeze(1)).all(2).sum(1, keepdim=True) + x


class Missing(nn.Module):
    """Replaces missing elements by the mean of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(torch.isnan(x), torch.nanmean(x, 0), x)


class Below(nn.Module):
    """Replaces negative elements by the mean of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x < 0, x.mean(0), x)


class Absent(nn.Module):
    """Replaces zeros by the mean of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x == 0, x.mean(0), x)


class Compared(nn.Module):
    """Names a device that it does not use, like the code of nn.MultiheadAttention."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type in ["cpu", "cuda"] or x.device.type == "cuda":
            return x * 2
        return x * 3


SCRIPTED = [
    Placed, Moved, Compared,
    OneHot, UpTo, UpToEach, Padded, Unpacked, UnpackedTo, Cut, Distinct, Signed, Guarded, Masked,
    Centred, Offset, Faint, Softmax, Cumulative, Scaled, Sorted, Reversed, FromThree, FromEight, Clipped, Beside,
    Longest, Ranked, Chance, Constant, Extreme, Far, Strict, Rounded, Lowest, Seven,
    Averaged, Counted, Missing, Below, Absent,
]  # fmt: skip


def main() -> None:
    torch.manual_seed(7)
    torch.backends.quantized.engine = "fbgemm"
    torch.backends.mha.set_fastpath_enabled(False)
    FOLDER.mkdir(exist_ok=True)
    for model in SCRIPTED:
        write(torch.jit.script(model().eval()), f"mixing/{model.__name__.lower()}")
    ids = torch.ones(1, 6, dtype=torch.int64)
    quantised = torch.ao.quantization.quantize_dynamic(mlp().eval(), {nn.Linear})
    traced = {
        "dynamic": (quantised, torch.rand(1, 16)),
        "classes": (Classes(), torch.rand(1, 16)),
        "attention": (Attention(), ids),
        "gru": (Gru(), torch.rand(1, 5, 4)),
        "conv": (conv(), torch.rand(1, 1, 8, 8)),
        "mlp": (mlp(), torch.rand(1, 16)),
        "float16": (Half(torch.float16), torch.rand(1, 16)),
        "bfloat16": (Half(torch.bfloat16), torch.rand(1, 16)),
        "float64": (mlp().double(), torch.rand(1, 16, dtype=torch.float64)),
    }
    for name, (model, example) in traced.items():
        write(torch.jit.trace(model.eval(), example, check_trace=False), f"mixing/{name}")


if __name__ == "__main__":
    main()
