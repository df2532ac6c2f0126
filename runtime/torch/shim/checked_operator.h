// Operators that check their operands before they run.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace weir {

// Raises where the operands, the last of the stack, are none that the operator may run with.
using OperandCheck = void (*)(const c10::FunctionSchema& schema, const torch::jit::Stack& stack);

// To take the operator's place in libtorch's table: registered anew it would come last, and code prefers the first that
// fits.
inline torch::jit::Operator checked(const torch::jit::Operator& unchecked, OperandCheck check) {
  const auto& schema = unchecked.schema();
  auto run = [schema, check, inner = unchecked.getOperation()](torch::jit::Stack& stack) mutable {
    check(schema, stack);
    inner(stack);
  };
  return torch::jit::Operator(
      schema.name(), schema.overload_name(), schema.arguments(), schema.returns(),
      torch::jit::Operation(std::move(run)), schema.aliasAnalysis());
}

} // namespace weir
