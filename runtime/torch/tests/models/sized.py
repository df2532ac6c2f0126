"""Makes sized.pt: methods whose answers have sizes that depend on the values of the input.

    python sized.py
"""

import torch
from torch import Tensor, nn

from generate import write


class Sized(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x

    @torch.jit.export
    def one_hot(self, x: Tensor) -> Tensor:
        return nn.functional.one_hot(x)

    @torch.jit.export
    def bincount(self, x: Tensor) -> Tensor:
        return torch.bincount(x.reshape(-1))

    @torch.jit.export
    def nonzero(self, x: Tensor) -> Tensor:
        return torch.nonzero(x)

    @torch.jit.export
    def unique(self, x: Tensor) -> Tensor:
        return torch.unique_consecutive(x.sort(-1)[0].reshape(-1))

    @torch.jit.export
    def masked_select(self, x: Tensor) -> Tensor:
        return torch.masked_select(x, x > 0.5)

    @torch.jit.export
    def repeats(self, x: Tensor) -> Tensor:
        return torch.repeat_interleave(x.long().reshape(-1))

    @torch.jit.export
    def arange(self, x: Tensor) -> Tensor:
        return torch.arange(int(x.max()))

    @torch.jit.export
    def zeros(self, x: Tensor) -> Tensor:
        return torch.zeros([int(x.sum()), 3])

    @torch.jit.export
    def histogram(self, ids: Tensor, x: Tensor) -> Tensor:
        return torch.zeros([int(ids.max()) + 1]).index_add(0, ids.long().reshape(-1), x.reshape(-1)[: ids.numel()])

    @torch.jit.export
    def fixed(self, x: Tensor) -> Tensor:
        return nn.functional.one_hot(x % 5, 5)


if __name__ == "__main__":
    write(torch.jit.script(Sized().eval()), "sized")
