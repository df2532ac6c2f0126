"""Writes trusting.pt: methods that pass a client's values to libtorch operators that do not check them.

    python trusting.py
"""

import math

import torch
import torch.ao.nn.quantized.dynamic as quantized
from torch import Tensor, nn

from generate import write


class Trusting(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = quantized.LSTMCell(2, 3)
        self.rows = torch.ops.quantized.embedding_bag_byte_prepack(torch.ones(5, 4))
        self.gru = nn.GRU(2, 3)

    def forward(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return f

    @torch.jit.export
    def coo(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.sparse_coo_tensor(i.reshape(2, -1), f, [5, 5]).to_dense()

    @torch.jit.export
    def coo_unsafe(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.ops.aten._sparse_coo_tensor_unsafe(i.reshape(2, -1), f, [5, 5]).to_dense()

    @torch.jit.export
    def csr(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.sparse_csr_tensor(i, j, f, [2, 2]).to_dense()

    @torch.jit.export
    def bsr(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.sparse_bsr_tensor(i, j, f.reshape(2, 2, f.numel() // 4), [4, 4]).to_dense()

    @torch.jit.export
    def csr_to_coo(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch._convert_indices_from_csr_to_coo(i, j).float()

    @torch.jit.export
    def coo_to_csr(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch._convert_indices_from_coo_to_csr(i, 3).float()

    @torch.jit.export
    def eigvals(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.linalg.eigvals(f.reshape(2, 2)).abs()

    @torch.jit.export
    def ldl_solve(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.linalg.ldl_solve(f.reshape(2, 2), i.int(), torch.eye(2))

    @torch.jit.export
    def lu_unpack(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.lu_unpack(f.reshape(2, 2), i.int())[1]

    @torch.jit.export
    def lstsq(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.linalg.lstsq(f.reshape(2, 2), torch.ones(2, j.numel()), driver="gelss")[0]

    @torch.jit.export
    def lcm(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.lcm(i, j).float()

    @torch.jit.export
    def gcd(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return f + math.gcd(int(i[0]), int(j[0]))

    @torch.jit.export
    def ctc(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        log_probs = f.reshape(4, 1, 3).log_softmax(-1)
        return torch.ctc_loss(log_probs, i.reshape(1, -1), torch.tensor([4]), j)

    @torch.jit.export
    def segments(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.segment_reduce(f, "sum", offsets=i)

    @torch.jit.export
    def lengths(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.segment_reduce(f, "sum", lengths=i, unsafe=True)

    @torch.jit.export
    def bags(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch._embedding_bag_forward_only(torch.ones(5, 2), i, j)[0]

    @torch.jit.export
    def quantized_bags(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.ops.quantized.embedding_bag_byte_rowwise_offsets(self.rows, i, j)

    @torch.jit.export
    def packed_gru(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        weights = [self.gru.weight_ih_l0, self.gru.weight_hh_l0, self.gru.bias_ih_l0, self.gru.bias_hh_l0]
        return torch.gru(f.reshape(-1, 2), i, torch.zeros(1, 2, 3), weights, True, 1, 0.0, False, False)[0]

    @torch.jit.export
    def padded(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch._pad_packed_sequence(f.reshape(-1, 1), i, False, 0.0, 4)[0]

    @torch.jit.export
    def quantized_cell(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        state = torch.zeros(1).expand(int(i[0]), int(i[1]))
        cell = self.cell
        return torch.ops.quantized.quantized_lstm_cell_dynamic(
            f.reshape(-1, 2), [state, state], cell._packed_weight_ih, cell._packed_weight_hh, cell.bias_ih, cell.bias_hh
        )[0]

    @torch.jit.export
    def attention(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        keys = f.reshape(1, 1, -1, 4)
        return nn.functional.scaled_dot_product_attention(torch.ones(1, 1, 2, 4), keys, torch.ones(1, 1, 3, 4))

    @torch.jit.export
    def batch_norm(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        mean, variance = torch.zeros(2), torch.ones(2)
        return torch.native_batch_norm(f.reshape(1, -1, 1), None, None, mean, variance, False, 0.1, 1e-5)[0]

    @torch.jit.export
    def pooled(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        plane = torch.ones(1, 1, 2, 2)
        return torch.ops.aten.max_pool2d_with_indices_backward(
            torch.ones(1, 1, 1, 1), plane, [2, 2], [2, 2], [0, 0], [1, 1], False, i.reshape(1, 1, 1, 1)
        )

    @torch.jit.export
    def replaces(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return f + len("abc".replace("c" if bool(i[0]) else "", "d"))

    @torch.jit.export
    def widens(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return f + len("abc".ljust(int(i[0])))

    @torch.jit.export
    def four_bits(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(torch.ones(32, 64, dtype=torch.int32), 1)
        return torch.ops.aten._weight_int4pack_mm_for_cpu(torch.ones(1, 64), packed, 32, f.expand(2, 32, 2)[: int(i[0])])

    @torch.jit.export
    def observer(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        on = torch.tensor([1])
        zero = torch.zeros(3, dtype=torch.int32)
        return torch.fused_moving_avg_obs_fake_quant(
            f.reshape(-1, 2), on, on, torch.zeros(3), torch.ones(3), torch.ones(3), zero, 0.01, 0, 255, 0, True, False
        )

    @torch.jit.export
    def bins(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.choose_qparams_optimized(f, f.numel(), int(i[0]), 0.5, 8)[0].reshape(1)

    @torch.jit.export
    def heads(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        q, w, b = torch.ones(1, 2, 4), torch.ones(12, 4), torch.ones(12)
        return torch._native_multi_head_attention(q, q, q, 4, int(i[0]), w, b, torch.ones(4, 4), torch.ones(4))[0]

    @torch.jit.export
    def mask(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch._masked_softmax(f.reshape(1, 1, 2, -1), torch.zeros([1, 2], dtype=torch.bool), 3, 1)

    @torch.jit.export
    def window(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.max_pool1d(f.reshape(1, 1, -1), [int(i[0])], [2], [1])

    @torch.jit.export
    def kernel(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        size = [int(i[0]), int(i[0])]
        return torch.ops.aten.slow_conv_transpose2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2), size)

    @torch.jit.export
    def diagonals(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.ops.aten._spdiags(torch.ones(1, 2), torch.zeros(1, dtype=torch.long), [2, int(i[0])]).to_dense()

    @torch.jit.export
    def alias(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.ops.aten._reshape_alias(f, [int(i[0])], [1]).clone()

    @torch.jit.export
    def resized(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.ops.aten._upsample_bilinear2d_aa(torch.ones(1, 1, 4, 4), [2, 2], False, float(f[0]), float(f[1]))

    @torch.jit.export
    def resized_smoothly(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.ops.aten._upsample_bicubic2d_aa(torch.ones(1, 1, 4, 4), [2, 2], False, float(f[0]), float(f[1]))

    @torch.jit.export
    def reordered(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        step = [int(i[0]), int(i[0])]
        weight = torch.ops.mkldnn._reorder_convolution_weight(torch.ones(1, 1, 1, 1), [0, 0], step, [1, 1], 1)
        return weight.to_dense().reshape(1)

    @torch.jit.export
    def summed(self, f: Tensor, i: Tensor, j: Tensor) -> Tensor:
        x, weight = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 1, 1)
        return torch.ops.mkldnn._convolution_pointwise(
            x, f.reshape(1, 1, 2, -1), weight, None, [0, 0], [1, 1], [1, 1], 1, "add", None, None, [], None
        ).reshape(-1)


if __name__ == "__main__":
    torch.manual_seed(3)
    write(torch.jit.script(Trusting().eval()), "trusting")
