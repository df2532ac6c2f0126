"""Makes unguarded.pt: a method for each operator of `src/unguarded.rs`, named after it; and prepacked.pt with those that
libtorch 2.15 no longer has.

    pip install torch==2.11.0 torchvision==0.26.0 && python unguarded.py
"""

import torch
from torch import Tensor, nn

from generate import write

ADAM = "lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0, eps=0.1, amsgrad=True, maximize=False"
ADAGRAD = "lr=0.1, lr_decay=0.9, weight_decay=0.0, eps=0.1, maximize=False"
SGD = "weight_decay=0.0, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False, maximize=False, is_first_step=False"
QUANTIZED = "f, 0.1, 3, f, f, i, None"
CONVOLVED = '[1, 1], [1, 1], [1, 1], 1, 0.1, 3, None, "none", [], ""'

CALLS = {
    "aten::_cdist_backward": "f, f, f, 2.0, f",
    "aten::_ctc_loss_backward": "f, f, i, [1], [1], f, f, 0",
    "aten::_dyn_quant_matmul_4bit": "f, f, 32, 64, 32",
    "aten::_embedding_bag_dense_backward": "f, i, i, i, i, 5, False, 0, None",
    "aten::_embedding_bag_per_sample_weights_backward": "f, f, i, i, i, 0",
    "aten::_fused_adagrad": f"all, all, all, all, {ADAGRAD}",
    "aten::_fused_adagrad_": f"all, all, all, all, {ADAGRAD}",
    "aten::_fused_adam": f"all, all, all, all, all, all, {ADAM}",
    "aten::_fused_adam_": f"all, all, all, all, all, all, {ADAM}",
    "aten::_fused_adamw": f"all, all, all, all, all, all, {ADAM}",
    "aten::_fused_adamw_": f"all, all, all, all, all, all, {ADAM}",
    "aten::_fused_sgd": f"all, all, all, {SGD}",
    "aten::_fused_sgd_": f"all, all, all, {SGD}",
    "aten::_nested_view_from_buffer": "f, i, i, i",
    "aten::_nested_view_from_buffer_copy": "f, i, i, i",
    "aten::_pdist_backward": "f, f, 2.0, f",
    "aten::_segment_reduce_backward": 'f, f, f, "sum", lengths=i',
    "aten::_sobol_engine_draw": "i, 4, i, 3, 0, None",
    "aten::_sobol_engine_ff_": "i, 4, i, 3, 0",
    "aten::_sobol_engine_initialize_state_": "i, 3",
    "aten::_sobol_engine_scramble_": "i, i, 3",
    "aten::convolution_backward": "f, f, f, None, [1], [0], [1], False, [0], 1, [True, True, False]",
    "aten::embedding_dense_backward": "f, i, 5, -1, True",
    "aten::fractional_max_pool3d_backward": "f, f, [2, 2, 2], [4, 4, 4], i",
    "aten::mkldnn_rnn_layer": "f, f, f, f, f, f, f, False, [1], 2, 3, 1, True, False, False, False",
    "aten::native_batch_norm_backward": "f, f, f, f, f, f, f, True, 0.1, [True, True, True]",
    "aten::native_layer_norm_backward": "f, f, [3], f, f, f, f, [True, True, True]",
    "aten::nll_loss2d_backward": "f, f, i, None, 1, -100, f",
    "aten::nll_loss_backward": "f, f, i, None, 1, -100, f",
    "mkldnn::_linear_pointwise": 'f, f, None, "none", [], ""',
    "onednn::qconv1d_pointwise": f"{QUANTIZED}, {CONVOLVED}",
    "onednn::qconv2d_pointwise": f"{QUANTIZED}, {CONVOLVED}",
    "onednn::qconv3d_pointwise": f"{QUANTIZED}, {CONVOLVED}",
    "onednn::qconv_pointwise": f"{QUANTIZED}, {CONVOLVED}",
    "onednn::qlinear_pointwise": f'{QUANTIZED}, 0.1, 3, None, "none", [], ""',
}

PREPACKED = {
    "prepacked::conv2d_clamp_run": "f, torch.ops.prepacked.conv2d_clamp_prepack(f, None, [1, 1], [1, 1], [1, 1], 1)",
    "prepacked::conv2d_transpose_clamp_run": "f, torch.ops.prepacked.conv2d_transpose_clamp_prepack("
    "f, None, [1, 1], [1, 1], [0, 0], [1, 1], 1)",
    "prepacked::linear_clamp_run": "f, torch.ops.prepacked.linear_clamp_prepack(f, None)",
}


class Unguarded(nn.Module):
    def forward(self, f: Tensor, i: Tensor) -> Tensor:
        return f


if __name__ == "__main__":
    for file, calls in (("unguarded", CALLS), ("prepacked", PREPACKED)):
        module = torch.jit.script(Unguarded().eval())
        for name, operands in calls.items():
            method, call = name.replace("::", "__"), f"torch.ops.{name.replace('::', '.')}({operands})"
            lines = [f"def calls_{method}(self, f: Tensor, i: Tensor):", "all = [f]", f"print({call})", "return all[0]"]
            module.define("\n    ".join(lines) + "\n")
        write(module, file)
