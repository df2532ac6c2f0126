// Checks of quantization operators: sizes of scales, ranges and packed weights.
#include <ATen/ATen.h>

#include <cstdint>

#include "checked_operator.h"
#include "operands.h"

namespace weir {
namespace {

using c10::FunctionSchema;
using torch::jit::Stack;

// Checks the scales and zero points of a 4-bit weight, one pair for each group.
void check_groups(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto input = operands.tensor("self"), scales = operands.tensor("qScaleAndZeros");
  auto group = operands["qGroupSize"].toInt();
  TORCH_CHECK(input.dim() == 2 && scales.dim() == 3 && group > 0, schema.name(), ": Expected 2-D input and 3-D scales");
  auto groups = (input.size(1) + group - 1) / group;
  TORCH_CHECK(
      scales.size(0) == groups, schema.name(), ": there are scales of ", scales.size(0), " groups, but ", groups,
      " groups of ", group, " among ", input.size(1), " columns");
}

// Checks the running ranges of an observer: one for all elements, or one for each channel.
void check_observer(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto input = operands.tensor("self");
  bool by_channel = operands["per_row_fake_quant"].toBool();
  // The first call creates the ranges of channels if they are empty.
  if (input.numel() == 0 || (by_channel && operands.tensor("running_min").numel() == 0)) {
    return;
  }
  auto ranges = by_channel ? input.size(operands["ch_axis"].toInt()) : 1;
  for (const char* name : {"running_min", "running_max", "scale", "zero_point"}) {
    auto count = operands.tensor(name).numel();
    TORCH_CHECK(count >= ranges, schema.name(), ": ", name, " should have ", ranges, " elements, not ", count);
  }
}

// Checks the search for the best range, which goes through a number of bins.
void check_bins(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto input = operands.tensor("input");
  auto count = operands["numel"].toInt(), bins = operands["n_bins"].toInt();
  auto ratio = operands["ratio"].toDouble();
  TORCH_CHECK(
      count >= 0 && count <= input.numel(), schema.name(), ": there are ", input.numel(), " elements, not ", count);
  TORCH_CHECK(bins > 0 && ratio >= 0 && ratio <= 1, schema.name(), ": Expected n_bins > 0 and a ratio from 0 to 1");
}

const CheckedOperator CHECKED[] = {
    {"aten::_weight_int4pack_mm_for_cpu", check_groups, is_kernel},
    {"aten::fused_moving_avg_obs_fake_quant", check_observer, is_kernel},
    {"aten::_fused_moving_avg_obs_fq_helper", check_observer, is_kernel},
    {"aten::choose_qparams_optimized", check_bins, is_kernel},
};

} // namespace

void check_quantized() {
  check_all(CHECKED);
}

} // namespace weir
