// Checks of attention and normalisation layers, whose tensors must have equal sizes.
#include <ATen/ATen.h>

#include <cstdint>

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

const CheckedOperator CHECKED[] = {
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
