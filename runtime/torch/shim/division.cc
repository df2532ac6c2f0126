// libtorch's interpreter computes `a % b` of two integers, and `a // b` of traced sizes, with the CPU's division
// instruction. If there is no valid quotient, the CPU traps and the process ends. Python raises an exception instead,
// and so do these checks.
#include "division.h"

#include <cstdint>
#include <limits>
#include <mutex>

#include "checked_operator.h"

namespace weir {
namespace {

using torch::jit::IValue;
using torch::jit::Stack;

void check_quotient(const c10::FunctionSchema&, const Stack& stack) {
  const IValue& divisor = torch::jit::peek(stack, 1, 2);
  const IValue& dividend = torch::jit::peek(stack, 0, 2);
  if (!divisor.isInt() || !dividend.isInt()) {
    return;
  }
  TORCH_CHECK(divisor.toInt() != 0, "ZeroDivisionError: integer division or modulo by zero");
  TORCH_CHECK(
      divisor.toInt() != -1 || dividend.toInt() != std::numeric_limits<int64_t>::min(),
      "OverflowError: the quotient ", dividend.toInt(), " / -1 is too large for an integer");
}

// Euclid's algorithm divides with remainder. Its first division may be that of the least integer by -1, which has no
// valid quotient.
void check_common_divisor(const c10::FunctionSchema&, const Stack& stack) {
  const IValue& first = torch::jit::peek(stack, 0, 2);
  const IValue& second = torch::jit::peek(stack, 1, 2);
  if (!first.isInt() || !second.isInt()) {
    return;
  }
  auto least = std::numeric_limits<int64_t>::min();
  TORCH_CHECK(
      first.toInt() != least && second.toInt() != least, "OverflowError: the absolute value of ", least,
      " is too large for an integer");
}

// Selects the overloads for two integers, or for two numbers that may be integers.
bool divides_numbers(const torch::jit::Operator& op) {
  const auto& schema = op.schema();
  if (op.isC10Op() || schema.arguments().size() != 2) {
    return false;
  }
  for (const auto& argument : schema.arguments()) {
    auto kind = argument.type()->kind();
    if (kind != c10::TypeKind::IntType && kind != c10::TypeKind::NumberType) {
      return false;
    }
  }
  return true;
}

const CheckedOperator CHECKED[] = {
    {"aten::remainder", check_quotient, divides_numbers},
    {"aten::floordiv", check_quotient, divides_numbers},
    {"aten::divmod", check_quotient, divides_numbers},
    {"aten::__round_to_zero_floordiv", check_quotient, divides_numbers},
    {"aten::gcd", check_common_divisor, divides_numbers},
};

} // namespace

void check_divisions() {
  static std::once_flag once;
  std::call_once(once, [] {
    check_all(CHECKED);
  });
}

} // namespace weir
