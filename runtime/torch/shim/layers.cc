// Checks of attention, normalisation and convolution layers, whose tensors must have sizes that fit.
#include <ATen/ATen.h>

#include <cstdint>
#include <limits>

#include "checked_operator.h"
#include "operands.h"

namespace weir {
namespace {

using c10::FunctionSchema;
using torch::jit::Stack;

void check_attention(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto query = operands.tensor("query"), key = operands.tensor("key"), value = operands.tensor("value");
  TORCH_CHECK(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2, "attention: Expected at least 2-D tensors");
  TORCH_CHECK(
      key.size(-2) == value.size(-2), "attention: there are ", key.size(-2), " keys, but ", value.size(-2), " values");
  TORCH_CHECK(
      key.size(-1) == query.size(-1), "attention: a query has ", query.size(-1), " elements, but a key ", key.size(-1));
}

// Checks the CPU kernel itself, which requires the same batch size and number of heads in all tensors.
void check_attention_kernel(const FunctionSchema& schema, const Stack& stack) {
  check_attention(schema, stack);
  Operands operands{schema, stack};
  auto query = operands.tensor("query"), key = operands.tensor("key"), value = operands.tensor("value");
  TORCH_CHECK(
      query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && query.sizes().slice(0, 2) == key.sizes().slice(0, 2) &&
          query.sizes().slice(0, 2) == value.sizes().slice(0, 2) && query.size(-1) == value.size(-1),
      "attention: a query of shape ", query.sizes(), " fits no keys of shape ", key.sizes(), " and values of shape ",
      value.sizes());
}

void check_channels(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto input = operands.tensor("input");
  TORCH_CHECK(input.dim() >= 2, schema.name(), ": Expected at least 2-D input");
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    auto of_channel = operands.tensor(name);
    TORCH_CHECK(
        !of_channel.defined() || of_channel.numel() == input.size(1), schema.name(), ": ", name, " should have ",
        input.size(1), " elements, not ", of_channel.defined() ? of_channel.numel() : 0);
  }
}

// Checks the number of attention heads, by which the width of the input is divided.
void check_heads(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto heads = operands[operands.has("num_head") ? "num_head" : "num_heads"].toInt();
  TORCH_CHECK(heads > 0, schema.name(), ": Expected a number of heads above 0, not ", heads);
}

// Checks the shape of an attention mask. It masks pairs of row and column (type 0), or the columns of each row of the
// batch (type 1).
void check_mask(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto input = operands.tensor("self"), mask = operands.tensor("mask");
  const auto& type = operands["mask_type"];
  if (!type.isInt() || type.toInt() > 1) {
    return;
  }
  bool of_rows = type.toInt() == 1;
  TORCH_CHECK(
      input.dim() == 4 && mask.dim() == 2 && mask.size(0) == input.size(of_rows ? 0 : 2) &&
          mask.size(1) == input.size(3),
      schema.name(), ": a mask of shape ", mask.sizes(), " does not fit an input of shape ", input.sizes());
}

// Checks the window of a pooling operator, whose sizes libtorch stores as 32-bit integers for two dimensions.
void check_window(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  for (const char* name : {"kernel_size", "stride", "padding", "dilation"}) {
    for (auto size : operands[name].toIntVector()) {
      TORCH_CHECK(
          size <= std::numeric_limits<int32_t>::max(), schema.name(), ": a ", name, " of ", size, " is too large");
    }
  }
}

// Checks that the kernel sizes of a convolution equal those of its weights.
void check_kernel(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto weight = operands.tensor("weight");
  auto kernel = operands["kernel_size"].toIntVector();
  if (!weight.defined() || weight.dim() != static_cast<int64_t>(kernel.size()) + 2) {
    return;
  }
  TORCH_CHECK(
      weight.sizes().slice(2) == kernel, schema.name(), ": a kernel of size ", kernel, " does not fit weights of shape ",
      weight.sizes());
}

// Checks that the steps of a convolution are positive. oneDNN divides by them when it chooses a layout for weights.
void check_steps(const FunctionSchema& schema, const Stack& stack) {
  for (auto stride : Operands{schema, stack}["stride"].toIntVector()) {
    TORCH_CHECK(stride > 0, schema.name(), ": non-positive stride is not supported");
  }
}

// Checks that a tensor which is added to the result of a convolution has its sizes.
void check_summand(const FunctionSchema& schema, const Stack& stack) {
  check_steps(schema, stack);
  Operands operands{schema, stack};
  auto input = operands.tensor("X"), weight = operands.tensor("W"), other = operands.tensor("other");
  auto padding = operands["padding"].toIntVector(), stride = operands["stride"].toIntVector(),
       dilation = operands["dilation"].toIntVector();
  bool fits = input.dim() >= 3 && weight.dim() == input.dim() && other.dim() == input.dim();
  fits = fits && other.size(0) == input.size(0) && other.size(1) == weight.size(0);
  for (int64_t i = 2; fits && i < input.dim(); ++i) {
    auto of = [i](const std::vector<int64_t>& sizes) { return sizes.size() == 1 ? sizes[0] : sizes.at(i - 2); };
    auto kernel = of(dilation) * (weight.size(i) - 1) + 1;
    fits = other.size(i) == (input.size(i) + 2 * of(padding) - kernel) / of(stride) + 1;
  }
  TORCH_CHECK(
      fits, schema.name(), ": a tensor of shape ", other.sizes(), " cannot be added to the convolution of an input of shape ",
      input.sizes(), " with weights of shape ", weight.sizes());
}

// Checks the scales of a resized image, which may contradict its sizes: the centre of the last element must lie inside
// the original, whose elements around it are read. A scale that is not above 0 is ignored.
void check_scales(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto input = operands.tensor("self");
  auto sizes = operands["output_size"].toIntVector();
  if (operands["align_corners"].toBool() || input.dim() != 4 || sizes.size() != 2) {
    return;
  }
  const char* names[] = {"scales_h", "scales_w"};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto& scale = operands[names[i]];
    auto size = input.size(static_cast<int64_t>(i) + 2);
    bool given = scale.isDouble() && scale.toDouble() > 0;
    TORCH_CHECK(
        !given || (static_cast<double>(sizes[i]) - 0.5) / scale.toDouble() < static_cast<double>(size), schema.name(),
        ": a ", names[i], " of ", scale, " does not lead from ", size, " to ", sizes[i], " elements");
  }
}

bool scales(const torch::jit::Operator& op) {
  return is_kernel(op) && op.schema().argumentIndexWithName("scales_h").has_value();
}

bool adds(const torch::jit::Operator& op) {
  return is_kernel(op) && op.schema().argumentIndexWithName("other").has_value();
}

const CheckedOperator CHECKED[] = {
    {"mkldnn::_convolution_pointwise", check_summand, adds},
    {"mkldnn::_convolution_pointwise_", check_summand, adds},
    {"mkldnn::_reorder_convolution_weight", check_steps, is_kernel},
    {"mkldnn::_reorder_convolution_transpose_weight", check_steps, is_kernel},
    {"aten::_upsample_bicubic2d_aa", check_scales, scales},
    {"aten::_upsample_bilinear2d_aa", check_scales, scales},
    {"aten::_upsample_lanczos2d_aa", check_scales, scales},
    {"aten::slow_conv3d", check_kernel, is_kernel},
    {"aten::slow_conv3d_forward", check_kernel, is_kernel},
    {"aten::slow_conv_transpose2d", check_kernel, is_kernel},
    {"aten::slow_conv_transpose3d", check_kernel, is_kernel},
    {"aten::_native_multi_head_attention", check_heads, is_kernel},
    {"aten::_transformer_encoder_layer_fwd", check_heads, is_kernel},
    {"aten::_masked_softmax", check_mask, is_kernel},
    {"aten::max_pool1d", check_window, is_kernel},
    {"aten::max_pool1d_with_indices", check_window, is_kernel},
    {"aten::scaled_dot_product_attention", check_attention, is_kernel},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", check_attention_kernel, is_kernel},
    {"aten::native_batch_norm", check_channels, is_kernel},
    {"aten::_native_batch_norm_legit", check_channels, is_kernel},
    {"aten::_native_batch_norm_legit_no_training", check_channels, is_kernel},
    {"aten::_batch_norm_with_update", check_channels, is_kernel},
    {"aten::_batch_norm_no_update", check_channels, is_kernel},
};

} // namespace

void check_layers() {
  check_all(CHECKED);
}

} // namespace weir
