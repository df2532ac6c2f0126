// Hooks of a module, which Python runs around `forward`. Calling another method runs no hooks.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

#include "writes.h"

namespace weir {

// Returns true if a call of `method` must run hooks: the hooks of a module belong to its `forward`. Hooks of submodules
// are part of the code that calls them.
bool has_hooks(const torch::jit::Module& module, const std::string& method);

// Returns the type of the module's result after hooks, which may replace the result of `forward`.
c10::TypePtr type_after_hooks(const torch::jit::Module& module, c10::TypePtr of_forward);

// Adds the writes of the hooks.
void add_writes_of_hooks(const torch::jit::Module& module, Writes& writes);

} // namespace weir
