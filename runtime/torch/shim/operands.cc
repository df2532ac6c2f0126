// Some kernels of libtorch take sizes and positions on trust, and read or write beside their memory where those are wrong.
// PyTorch's own modules check them in Python, which a trace leaves out: a traced LSTM whose state has rows of another
// batch ends the process, and one whose input is too wide answers with what lies behind its weights.
#include "operands.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <limits>
#include <mutex>

#include "checked_operator.h"

namespace weir {
namespace {

using c10::FunctionSchema;
using torch::jit::IValue;
using torch::jit::Operator;
using torch::jit::Stack;

// The operands of one call.
struct Operands {
  const FunctionSchema& schema;
  const Stack& stack;

  const IValue& operator[](const char* name) const {
    auto index = schema.argumentIndexWithName(name);
    TORCH_CHECK(index.has_value(), schema.name(), " has no argument ", name);
    return torch::jit::peek(stack, *index, schema.arguments().size());
  }

  bool has(const char* name) const {
    return schema.argumentIndexWithName(name).has_value();
  }
};

// A state: one of each layer and direction, for each sequence.
void check_state(const char* name, const at::Tensor& state, at::IntArrayRef expected) {
  TORCH_CHECK(state.sizes() == expected, "Expected ", name, " size ", expected, ", got ", state.sizes());
}

// Sequences of one length, or those of `batch_sizes`: how many of them have a first step, a second and so on.
int64_t sequences(const Operands& operands) {
  if (!operands.has("batch_sizes")) {
    const auto& input = operands["input"].toTensor();
    TORCH_CHECK(input.dim() == 3, "LSTM: Expected input to be 3-D, got ", input.dim(), "-D tensor");
    return input.size(operands["batch_first"].toBool() ? 0 : 1);
  }
  const auto& sizes = operands["batch_sizes"].toTensor();
  TORCH_CHECK(sizes.dim() == 1 && sizes.numel() > 0 && sizes.is_cpu(), "LSTM: there are no sequences");
  return sizes.select(0, 0).item<int64_t>();
}

void check_lstm(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto states = operands["hx"].toTensorVector();
  TORCH_CHECK(states.size() == 2, "lstm expects two hidden states");
  TORCH_CHECK(states[0].dim() == 3 && states[1].dim() == 3, "LSTM: Expected hidden states to be 3-D");
  int64_t of_sequence = operands["num_layers"].toInt() * (operands["bidirectional"].toBool() ? 2 : 1);
  int64_t hidden = states[0].size(2), cell = states[1].size(2);
  const IValue& params = operands["params"];
  // Those of a quantized module are opaque, and compared with the states by their own kernels.
  if (params.isTensorList()) {
    auto weights = params.toTensorVector();
    TORCH_CHECK(
        weights.size() > 1 && weights[0].dim() == 2 && weights[1].dim() == 2, "LSTM: Expected weights to be 2-D");
    const auto& input = operands[operands.has("data") ? "data" : "input"].toTensor();
    TORCH_CHECK(
        input.dim() > 1 && input.size(-1) == weights[0].size(1),
        "input.size(-1) must be equal to input_size. Expected ", weights[0].size(1), ", got ", input.sizes());
    hidden = weights[1].size(1);
    cell = weights[0].size(0) / 4;
  }
  auto batch = sequences(operands);
  check_state("hidden[0]", states[0], {of_sequence, batch, hidden});
  check_state("hidden[1]", states[1], {of_sequence, batch, cell});
}

template <typename T>
void check_offsets(const at::Tensor& offsets, int64_t indices) {
  const auto* all = offsets.const_data_ptr<T>();
  int64_t before = 0;
  for (int64_t i = 0; i < offsets.numel(); ++i) {
    TORCH_CHECK(
        all[i] >= before && all[i] <= indices, "embedding_bag: offsets should ascend from 0 to at most ", indices,
        ", the number of indices, but offsets[", i, "] is ", all[i]);
    before = all[i];
  }
}

// The mode of bags that takes the largest of each.
constexpr int64_t LARGEST = 2;

// On a device they are not here to be looked at.
void check_bags(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  const auto& indices = operands["indices"].toTensor();
  const auto& given = operands["offsets"].toTensor();
  if (indices.dim() != 1 || given.dim() != 1 || !given.is_cpu()) {
    return;
  }
  TORCH_CHECK(given.numel() > 0 || operands["mode"].toInt() != LARGEST, "embedding_bag: there are no offsets");
  auto offsets = given.contiguous();
  if (offsets.scalar_type() == at::kLong) {
    check_offsets<int64_t>(offsets, indices.numel());
  } else if (offsets.scalar_type() == at::kInt) {
    check_offsets<int32_t>(offsets, indices.numel());
  }
}

bool is_integral(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
}

// The processor ends the process where the least integer is divided by -1, which has no quotient. Integers narrower
// than 32 bits are divided as such.
void check_truncated(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  const IValue& mode = operands["rounding_mode"];
  const IValue& other = operands["other"];
  const auto& dividend = operands["self"].toTensor();
  auto divisor = other.isTensor() ? other.toTensor() : at::scalar_tensor(other.toScalar());
  bool truncates = mode.isString() && mode.toStringRef() == "trunc";
  if (!truncates || !dividend.is_cpu() || !is_integral(dividend) || !is_integral(divisor)) {
    return;
  }
  auto type = at::result_type(dividend, divisor);
  if (type != at::kLong && type != at::kInt) {
    return;
  }
  int64_t least = type == at::kLong ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min();
  auto has_none = divisor.eq(-1);
  TORCH_CHECK(
      !has_none.any().item<bool>() || !dividend.to(type).eq(least).logical_and(has_none).any().item<bool>(),
      "OverflowError: the quotient ", least, " / -1 is too large for an integer");
}

struct Checked {
  const char* name;
  OperandCheck check;
};

const Checked CHECKED[] = {
    {"aten::lstm", check_lstm},
    {"aten::quantized_lstm", check_lstm},
    {"aten::embedding_bag", check_bags},
    {"aten::div", check_truncated},
    {"aten::div_", check_truncated},
    {"aten::divide", check_truncated},
    {"aten::divide_", check_truncated},
};

// Checks whether an overload is one of those that its check is for: division of tensors that takes a mode, and recurrence
// over parameters as they are saved today.
bool is_meant(const Operator& op) {
  const auto& schema = op.schema();
  bool divides = schema.name().rfind("aten::div", 0) == 0;
  bool has_mode = schema.argumentIndexWithName("rounding_mode").has_value();
  bool is_old = schema.overload_name().find("legacy") != std::string::npos;
  return op.isC10Op() && (has_mode || !divides) && !is_old;
}

} // namespace

void check_operands() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const auto& [name, check] : CHECKED) {
      for (const auto& found : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name))) {
        if (is_meant(*found)) {
          *found = checked(*found, check);
        }
      }
    }
  });
}

} // namespace weir
