// Operators that check their operands before they run.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace weir {

// Raises if the operator must not run with these operands, which are the last entries of the stack.
using OperandCheck = void (*)(const c10::FunctionSchema& schema, const torch::jit::Stack& stack);

// The operands of one call, by their names in the operator's schema.
struct Operands {
  const c10::FunctionSchema& schema;
  const torch::jit::Stack& stack;

  const torch::jit::IValue& operator[](const char* name) const {
    auto index = schema.argumentIndexWithName(name);
    TORCH_CHECK(index.has_value(), schema.name(), " has no argument ", name);
    return torch::jit::peek(stack, *index, schema.arguments().size());
  }

  bool has(const char* name) const {
    return schema.argumentIndexWithName(name).has_value();
  }

  // The tensor with this name; undefined if the operator has no such operand, or if it is None.
  at::Tensor tensor(const char* name) const {
    bool given = has(name) && (*this)[name].isTensor();
    return given ? (*this)[name].toTensor() : at::Tensor();
  }
};

// An operator and the check of its operands.
struct CheckedOperator {
  const char* name;
  OperandCheck check;
  // Selects the overloads that need the check.
  bool (*applies)(const torch::jit::Operator& op);
};

// Returns the operator with the check added. It must replace the original entry in libtorch's table: if registered anew
// it would come last, and TorchScript takes the first overload that matches.
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

// Makes every selected overload of the operators run its check first.
template <size_t N>
void check_all(const CheckedOperator (&operators)[N]) {
  for (const auto& [name, check, applies] : operators) {
    for (const auto& found : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name))) {
      if (applies(*found)) {
        *found = checked(*found, check);
      }
    }
  }
}

// Returns true for an operator of libtorch's dispatcher, except for overloads that only old saved models call
// ("legacy").
inline bool is_kernel(const torch::jit::Operator& op) {
  return op.isC10Op() && op.schema().overload_name().find("legacy") == std::string::npos;
}

} // namespace weir
