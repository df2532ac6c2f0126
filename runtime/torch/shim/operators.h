// Finds the operators that a method may call.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <set>
#include <string>

namespace weir {

// Returns the qualified names of all operators that the code of `method` may call, such as aten::add. A call through an
// interface may reach any code of the module, so all of that code counts then.
std::set<std::string> operators_of(const torch::jit::Module& module, const torch::jit::Method& method);

} // namespace weir
