// libtorch's interpreter computes `a % b` of two integers, and `a // b` of traced sizes, with the processor's division.
// Where there is no quotient, the processor ends the process. Python raises instead, and so do these.
#include "division.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <limits>
#include <mutex>

#include "checked_operator.h"

namespace weir {
namespace {

using torch::jit::IValue;
using torch::jit::Stack;

// Of these operators, those on two integers, or on two numbers that may be integers.
const char* const DIVISIONS[] = {
    "aten::remainder", "aten::floordiv", "aten::divmod", "aten::__round_to_zero_floordiv"};

void check_operands(const c10::FunctionSchema&, const Stack& stack) {
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

bool divides_numbers(const c10::FunctionSchema& schema) {
  if (schema.arguments().size() != 2) {
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

} // namespace

void check_divisions() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const char* name : DIVISIONS) {
      for (const auto& found : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name))) {
        if (!found->isC10Op() && divides_numbers(found->schema())) {
          *found = checked(*found, check_operands);
        }
      }
    }
  });
}

} // namespace weir
