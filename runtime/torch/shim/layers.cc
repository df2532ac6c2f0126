// Checks of attention and normalisation layers, whose tensors must have equal sizes.
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

const CheckedOperator CHECKED[] = {
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
