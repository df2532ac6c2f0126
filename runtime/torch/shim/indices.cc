// Checks of tensors whose elements are positions in other tensors. Tensors on a GPU are not checked, because their
// elements are not in host memory.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "checked_operator.h"
#include "operands.h"

namespace weir {
namespace {

using c10::FunctionSchema;
using torch::jit::IValue;
using torch::jit::Stack;

// Raises unless all elements lie in [least, most].
void check_range(const char* what, const at::Tensor& positions, int64_t least, int64_t most) {
  if (!positions.is_cpu() || positions.numel() == 0) {
    return;
  }
  auto low = positions.min().item<int64_t>(), high = positions.max().item<int64_t>();
  TORCH_CHECK(
      low >= least && high <= most, what, " should lie between ", least, " and ", most, ", but there is ",
      low < least ? low : high);
}

// Raises unless the positions along the last dimension ascend, from at least 0 to at most `most`.
void check_ascending(const char* what, const at::Tensor& positions, int64_t most) {
  if (!positions.is_cpu()) {
    return;
  }
  check_range(what, positions, 0, most);
  TORCH_CHECK(
      positions.dim() == 0 || positions.size(-1) < 2 || positions.diff().ge(0).all().item<bool>(), what,
      " should ascend");
}

// Checks the bags of an embedding: `offsets` holds the first index of each bag.
void check_bags(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  const auto& indices = operands["indices"].toTensor();
  auto offsets = operands.tensor("offsets");
  auto weights = operands.tensor("per_sample_weights");
  TORCH_CHECK(
      !weights.defined() || weights.numel() == indices.numel(), "embedding_bag: there are ", indices.numel(),
      " indices, but ", weights.defined() ? weights.numel() : 0, " per_sample_weights");
  if (!offsets.defined() || indices.dim() != 1 || offsets.dim() != 1) {
    return;
  }
  bool ends = operands["include_last_offset"].toBool();
  TORCH_CHECK(offsets.numel() > (ends ? 1 : 0), "embedding_bag: there are no offsets");
  check_ascending("offsets of embedding_bag", offsets, indices.numel());
}

// Checks the indices of a pruned table, whose rows `compressed_indices_mapping` translates.
void check_pruned_bags(const FunctionSchema& schema, const Stack& stack) {
  check_bags(schema, stack);
  Operands operands{schema, stack};
  auto rows = operands.tensor("weight"), mapping = operands.tensor("compressed_indices_mapping");
  if (mapping.defined() && mapping.numel() > 0 && operands["pruned_weights"].toBool()) {
    check_range("indices of embedding_bag", operands["indices"].toTensor(), 0, mapping.numel() - 1);
    if (rows.defined()) {
      check_range("compressed_indices_mapping", mapping, -1, rows.size(0) - 1);
    }
  }
}

// Checks the labels of each sequence, up to its target length.
void check_ctc(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto probabilities = operands.tensor("log_probs"), targets = operands.tensor("targets");
  TORCH_CHECK(probabilities.dim() == 3 || probabilities.dim() == 2, "ctc_loss: Expected log_probs to be 3-D or 2-D");
  int64_t most = probabilities.size(-1) - 1;
  const IValue& given = operands["target_lengths"];
  if (targets.dim() != 2 || (given.isTensor() && !given.toTensor().is_cpu())) {
    check_range("targets of ctc_loss", targets, 0, most);
    return;
  }
  auto lengths = given.isTensor() ? given.toTensor().to(at::kLong).reshape(-1) : at::tensor(given.toIntVector());
  for (int64_t i = 0; i < std::min(targets.size(0), lengths.numel()); ++i) {
    auto length = std::clamp<int64_t>(lengths[i].item<int64_t>(), 0, targets.size(1));
    check_range("targets of ctc_loss", targets[i].narrow(0, 0, length), 0, most);
  }
}

// Checks the segments of an axis, given by their lengths or by their offsets.
void check_segments(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto data = operands.tensor("data");
  auto axis = operands["axis"].toInt();
  TORCH_CHECK(axis >= 0 && axis < data.dim(), "segment_reduce: data has no axis ", axis);
  for (const char* name : {"lengths", "offsets"}) {
    auto segments = operands.tensor(name);
    if (!segments.defined()) {
      continue;
    }
    TORCH_CHECK(
        segments.dim() == axis + 1 && segments.sizes().slice(0, axis) == data.sizes().slice(0, axis),
        "segment_reduce: ", name, " of shape ", segments.sizes(), " do not fit data of shape ", data.sizes());
    if (std::string(name) == "offsets") {
      check_ascending("offsets of segment_reduce", segments, data.size(axis));
    } else if (segments.is_cpu()) {
      check_range("lengths of segment_reduce", segments, 0, data.size(axis));
      TORCH_CHECK(
          segments.sum(-1).eq(data.size(axis)).all().item<bool>(),
          "segment_reduce: lengths should sum up to ", data.size(axis));
    }
  }
}

// Checks the positions of the largest elements within each pooled plane.
void check_pooled(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto planes = operands.tensor("self"), indices = operands.tensor("indices"), grad = operands.tensor("grad_output");
  int64_t axes = schema.name().find("pool3d") == std::string::npos ? 2 : 3;
  TORCH_CHECK(planes.dim() >= axes && indices.sizes() == grad.sizes(), schema.name(), ": indices do not fit the gradient");
  int64_t size = 1;
  for (int64_t i = 1; i <= axes; ++i) {
    size *= planes.size(-i);
  }
  TORCH_CHECK(
      indices.dim() == planes.dim() && indices.sizes().slice(0, indices.dim() - axes) ==
              planes.sizes().slice(0, planes.dim() - axes),
      schema.name(), ": indices do not fit the input");
  check_range("indices of pooling", indices, 0, size - 1);
}

const CheckedOperator CHECKED[] = {
    {"aten::embedding_bag", check_bags, is_kernel},
    {"aten::_embedding_bag", check_bags, is_kernel},
    {"aten::_embedding_bag_forward_only", check_bags, is_kernel},
    {"quantized::embedding_bag_byte_rowwise_offsets", check_pruned_bags, is_kernel},
    {"quantized::embedding_bag_4bit_rowwise_offsets", check_pruned_bags, is_kernel},
    {"quantized::embedding_bag_2bit_rowwise_offsets", check_pruned_bags, is_kernel},
    {"quantized::embedding_bag_byte", check_pruned_bags, is_kernel},
    {"quantized::embedding_bag_4bit", check_pruned_bags, is_kernel},
    {"aten::ctc_loss", check_ctc, is_kernel},
    {"aten::_ctc_loss", check_ctc, is_kernel},
    {"aten::segment_reduce", check_segments, is_kernel},
    {"aten::max_pool2d_with_indices_backward", check_pooled, is_kernel},
    {"aten::max_pool3d_with_indices_backward", check_pooled, is_kernel},
    {"aten::adaptive_max_pool2d_backward", check_pooled, is_kernel},
    {"aten::adaptive_max_pool3d_backward", check_pooled, is_kernel},
};

} // namespace

void check_indices() {
  check_all(CHECKED);
}

} // namespace weir
