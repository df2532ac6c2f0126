#include "hooks.h"

#include <ATen/core/class_type.h>
#include <ATen/core/function_schema.h>

#include <algorithm>

namespace weir {
namespace {

void add_writes(const torch::jit::Module& module, torch::jit::Function* hook, Writes& writes) {
  auto more = writes_of(module, torch::jit::Method(module._ivalue(), hook));
  writes.attributes = writes.attributes || more.attributes;
  writes.constants = writes.constants || more.constants;
  if (writes.where.empty()) {
    writes.where = more.where;
  }
  // The second argument of a hook is the tuple of all arguments of `forward`.
  if (more.arguments.size() > 1 && more.arguments[1]) {
    std::fill(writes.arguments.begin(), writes.arguments.end(), true);
  }
}

} // namespace

bool has_hooks(const torch::jit::Module& module, const std::string& method) {
  auto type = module.type();
  bool none = type->getForwardHooks().empty() && type->getForwardPreHooks().empty();
  return method == "forward" && !none;
}

c10::TypePtr type_after_hooks(const torch::jit::Module& module, c10::TypePtr of_forward) {
  auto returned = std::move(of_forward);
  auto type = module.type();
  for (auto* hook : type->getForwardHooks()) {
    const auto& returns = hook->getSchema().returns();
    if (returns.empty() || returns[0].type()->kind() == c10::TypeKind::NoneType) {
      continue; // a hook that returns None keeps the result
    }
    auto optional = returns[0].type()->cast<c10::OptionalType>();
    returned = optional ? optional->getElementType() : returns[0].type();
  }
  return returned;
}

void add_writes_of_hooks(const torch::jit::Module& module, Writes& writes) {
  auto type = module.type();
  for (auto* hook : type->getForwardPreHooks()) {
    add_writes(module, hook, writes);
  }
  for (auto* hook : type->getForwardHooks()) {
    add_writes(module, hook, writes);
  }
}

} // namespace weir
