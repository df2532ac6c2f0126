// Finds what a module's `forward` may write to: its own attributes, its constants, its arguments.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace weir {

struct Writes {
  bool attributes = false;      // parameters, buffers and other attributes, by assignment or in place
  bool constants = false;       // tensors that the code holds
  std::string where;            // the first such write, for people; empty without one
  std::vector<bool> arguments;  // by argument, self first
  bool training = false;        // the code asks for the mode that it was saved in, and it is that of training
};

// Analyses the graph of `method` of `module`; in doubt it writes.
Writes writes_of(const torch::jit::Module& module, const torch::jit::Method& method);

} // namespace weir
