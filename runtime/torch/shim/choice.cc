#include "choice.h"

#include <ATen/core/stack.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <mutex>
#include <utility>

namespace weir {

namespace {

// Takes the condition and a result for each of its values, of which the other branch's is empty.
void choose(torch::jit::Stack& stack) {
  auto no = torch::jit::pop(stack);
  auto yes = torch::jit::pop(stack);
  bool condition = torch::jit::pop(stack).toBool();
  torch::jit::push(stack, condition ? std::move(yes) : std::move(no));
}

} // namespace

void register_choice() {
  static std::once_flag once;
  std::call_once(once, [] {
    torch::jit::registerOperator(torch::jit::Operator(
        "weir::choose(bool condition, Any? yes, Any? no) -> Any", choose, c10::AliasAnalysisKind::CONSERVATIVE));
  });
}

} // namespace weir
