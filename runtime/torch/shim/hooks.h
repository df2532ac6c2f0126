// Hooks of a module, which Python runs around `forward`. A method called by itself runs none.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

#include "writes.h"

namespace weir {

// Checks whether a call of `method` is to run hooks: those of a module belong to its `forward`. Hooks of modules inside
// it are part of the code that calls them.
bool has_hooks(const torch::jit::Module& module, const std::string& method);

// The type of what a call of the module returns: a hook may return something else in place of forward's result.
c10::TypePtr type_after_hooks(const torch::jit::Module& module, c10::TypePtr of_forward);

// Adds what the hooks may write to.
void add_writes_of_hooks(const torch::jit::Module& module, Writes& writes);

} // namespace weir
