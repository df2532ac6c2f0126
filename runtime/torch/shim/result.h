// The result of a method, flattened into outputs.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <memory>
#include <string>
#include <vector>

#include "weir_torch.h"

// The outputs of a run. `paths` is empty unless the result's form is WEIR_KEYED.
struct WeirAnswer {
  struct Output {
    at::Tensor tensor;
    std::string strings;
    size_t count = 0;
  };
  std::vector<Output> outputs;
  std::vector<std::string> paths;
  uint64_t peak_bytes = 0;
};

namespace weir {

// The outputs into which values of a type are flattened, as far as the type determines them.
struct Result {
  WeirForm form = WEIR_FIXED;
  std::vector<std::string> paths;  // of each output, if the form is WEIR_FIXED
  std::string refusal;             // the reason that values of the type cannot be served; empty if they can
};

Result result_of(const c10::TypePtr& type);

// Flattens a value of the type with this form. Tensors come back contiguous, on `device` or in host memory.
std::unique_ptr<WeirAnswer> flatten(const c10::IValue& value, WeirForm form, at::Device device);

} // namespace weir
