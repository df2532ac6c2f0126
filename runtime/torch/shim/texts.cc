// Checks of string operators in a model's code. The interpreter would search for an empty string forever, and pad a
// string until memory runs out.
#include <cstdint>

#include "checked_operator.h"
#include "operands.h"

namespace weir {
namespace {

using c10::FunctionSchema;
using torch::jit::Stack;

// Largest width of a padded string: more than any text needs, and little memory.
constexpr int64_t MAX_WIDTH = 1 << 20;

void check_pattern(const FunctionSchema& schema, const Stack& stack) {
  const auto& pattern = torch::jit::peek(stack, 1, schema.arguments().size());
  TORCH_CHECK(!pattern.isString() || !pattern.toStringRef().empty(), "ValueError: ", schema.name(), " of an empty string");
}

void check_width(const FunctionSchema& schema, const Stack& stack) {
  const auto& width = torch::jit::peek(stack, 1, schema.arguments().size());
  TORCH_CHECK(
      !width.isInt() || (width.toInt() >= 0 && width.toInt() <= MAX_WIDTH), "OverflowError: ", schema.name(),
      " takes a width between 0 and ", MAX_WIDTH, ", not ", width.toInt());
}

bool takes_text(const torch::jit::Operator& op) {
  const auto& arguments = op.schema().arguments();
  return arguments.size() > 1 && arguments[0].type()->kind() == c10::TypeKind::StringType;
}

const CheckedOperator CHECKED[] = {
    {"aten::count", check_pattern, takes_text},
    {"aten::replace", check_pattern, takes_text},
    {"aten::rsplit", check_pattern, takes_text},
    {"aten::center", check_width, takes_text},
    {"aten::ljust", check_width, takes_text},
    {"aten::rjust", check_width, takes_text},
    {"aten::zfill", check_width, takes_text},
    {"aten::expandtabs", check_width, takes_text},
};

} // namespace

void check_texts() {
  check_all(CHECKED);
}

} // namespace weir
