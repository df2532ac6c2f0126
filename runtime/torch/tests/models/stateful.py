#!/usr/bin/env python3
"""Writes models that change their own state when they run, or appear to. Needs torch 2.11; run it only after a change.

    python3 stateful.py
"""

from typing import Dict, List, Tuple

import torch
from torch import Tensor, nn

from generate import write


class Counter(nn.Module):
    """Adds the number of its calls to its input. The counter is a buffer that it writes in place and returns."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        self.calls.add_(1)
        return x + self.calls, self.calls


class Recurrent(nn.Module):
    """Keeps the state of an LSTM between calls, like streaming models; a row that starts with 1 resets the state."""

    h: Tensor
    c: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTMCell(4, 8)
        self.h = torch.zeros(1, 8)
        self.c = torch.zeros(1, 8)

    def forward(self, x: Tensor) -> Tensor:
        if bool(x[0, 0] == 1) or self.h.size(0) != x.size(0):
            self.h = torch.zeros(x.size(0), 8)
            self.c = torch.zeros(x.size(0), 8)
        self.h, self.c = self.lstm(x, (self.h, self.c))
        return self.h


class Window(nn.Module):
    """Returns the sum of its last four inputs, which it keeps in a list."""

    last: List[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.last = []

    def forward(self, x: Tensor) -> Tensor:
        self.last.append(x)
        if len(self.last) > 4:
            self.last.pop(0)
        total = torch.zeros_like(x)
        for each in self.last:
            total = total + each
        return total


class Cache(nn.Module):
    """Keeps the sum of all inputs in a dict."""

    sums: Dict[str, Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.sums = {"all": torch.zeros(1)}

    def forward(self, x: Tensor) -> Tensor:
        self.sums["all"] = self.sums["all"] + x.sum()
        return x + self.sums["all"]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        view = self.seen.view(2, 2)[0]
        view += 1
        return x + self.seen.sum()


class Nested(nn.Module):
    """Writes to its state through a view, in a module within a module."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(Inner()), nn.Sequential(nn.Identity())])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Harmless(nn.Module):
    """Writes in place only to values of the call itself: results, views of them, and its own lists and dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5, inplace=True)
        self.register_buffer("bias", torch.ones(2, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        kept: List[Tensor] = []
        for _ in range(2):
            y = self.drop(self.act(self.norm(self.conv(x))))
            y += self.bias
            kept.append(y)
        kept[0].mul_(2)
        named = {"first": kept[0], "second": kept[1]}
        named["first"][:, 0] = 0.0
        mask = torch.zeros_like(x)
        mask.masked_fill_(x > 0, 1.0)
        return (named["first"] + named["second"]) * mask


KEPT = torch.zeros(1)


def captured(x: Tensor) -> Tensor:
    """When traced, the tensor becomes a constant of the code, and the code adds to it."""
    KEPT.add_(1)
    return x + KEPT


class DictInPlace(nn.Module):
    """Changes a tensor of its input dict in place."""

    def forward(self, inputs: Dict[str, Tensor]) -> Tensor:
        inputs["x"].add_(1)
        return inputs["x"]


class NestedTensor(nn.Module):
    """Returns rows of different lengths in one nested tensor, which V2 does not have."""

    def forward(self, x: Tensor) -> Tensor:
        return torch._nested_tensor_from_tensor_list([x, x[:, :1]], None, None, None, None)


SCRIPTED = {
    "counter": Counter,
    "recurrent": Recurrent,
    "window": Window,
    "cache": Cache,
    "nested": Nested,
    "harmless": Harmless,
    "dict_in_place": DictInPlace,
    "nested_tensor": NestedTensor,
}


def main() -> None:
    torch.manual_seed(3)
    for name, build in SCRIPTED.items():
        write(torch.jit.script(build().eval()), name)
    write(torch.jit.trace(captured, torch.zeros(1, 4), check_trace=False), "captured")
    training = torch.jit.trace(nn.BatchNorm1d(4).train(), torch.rand(2, 4), check_trace=False)
    write(training, "norm_in_training")
    write(torch.jit.script(nn.BatchNorm1d(4).train()), "saved_in_training")


if __name__ == "__main__":
    main()
