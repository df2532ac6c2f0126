// Finds the state that a module's method may write to: its attributes, its constants, its arguments.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace weir {

struct Writes {
  bool attributes = false;      // parameters, buffers and other attributes, by assignment or in place
  bool constants = false;       // tensors that the code holds
  std::string where;            // the first such write, described for the operator; empty without one
  std::vector<bool> arguments;  // by argument, self first
  bool training = false;        // the module was saved in training mode, and the code reads that flag
};

// Analyses the graph of `method` of `module`. If in doubt, the result says that it writes.
Writes writes_of(const torch::jit::Module& module, const torch::jit::Method& method);

} // namespace weir
