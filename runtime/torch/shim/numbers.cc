// Division of integers in tensors. The CPU traps and the process ends if the least integer is divided by -1, which has
// no valid quotient. Integers narrower than 32 bits are widened to 32 bits first, which avoids the trap.
#include <ATen/ATen.h>

#include <cstdint>
#include <limits>

#include "checked_operator.h"
#include "operands.h"

namespace weir {
namespace {

using c10::FunctionSchema;
using torch::jit::IValue;
using torch::jit::Stack;

bool is_integral(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
}

int64_t least_of(at::ScalarType type) {
  return type == at::kLong ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min();
}

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
  auto has_none = divisor.eq(-1);
  TORCH_CHECK(
      !has_none.any().item<bool>() || !dividend.to(type).eq(least_of(type)).logical_and(has_none).any().item<bool>(),
      "OverflowError: the quotient ", least_of(type), " / -1 is too large for an integer");
}

// libtorch's gcd of the least integer can be -1, and lcm then divides the least integer by -1, which overflows.
void check_least(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  const auto &self = operands["self"].toTensor(), &other = operands["other"].toTensor();
  auto type = at::result_type(self, other);
  if (!self.is_cpu() || !other.is_cpu() || (type != at::kLong && type != at::kInt)) {
    return;
  }
  bool has_least = self.to(type).eq(least_of(type)).any().item<bool>() || other.to(type).eq(least_of(type)).any().item<bool>();
  TORCH_CHECK(!has_least, "OverflowError: the absolute value of ", least_of(type), " is too large for an integer");
}

bool takes_mode(const torch::jit::Operator& op) {
  return is_kernel(op) && op.schema().argumentIndexWithName("rounding_mode").has_value();
}

const CheckedOperator CHECKED[] = {
    {"aten::div", check_truncated, takes_mode},
    {"aten::div_", check_truncated, takes_mode},
    {"aten::divide", check_truncated, takes_mode},
    {"aten::divide_", check_truncated, takes_mode},
    {"aten::lcm", check_least, is_kernel},
    {"aten::lcm_", check_least, is_kernel},
};

} // namespace

void check_numbers() {
  check_all(CHECKED);
}

} // namespace weir
