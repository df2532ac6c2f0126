// Runs of AOTInductor's compiled code on the processor.
#include "compiled.h"

#include <ATen/ATen.h>
#include <ATen/cpu/Utils.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "error.h"
#include "result.h"

using torch::inductor::AOTIModelContainerRunnerCpu;

struct WeirCompiled {
  std::unique_ptr<AOTIModelContainerRunnerCpu> runner;
  std::string inputs;
  std::string outputs;
  // True once the code has refused a single row and taken two.
  std::atomic<bool> needs_two{false};
};

namespace {

using Tensors = std::vector<at::Tensor>;

Tensors inputs_of(const WeirValue* values, size_t count) {
  Tensors inputs;
  for (size_t i = 0; i < count; ++i) {
    TORCH_CHECK(values[i].tensor != nullptr, "the model takes a tensor as input ", i);
    inputs.push_back(*values[i].tensor);
  }
  return inputs;
}

// Runs the code. Its own messages are lost: the C functions of the library print them to the standard error, and return
// a number.
Tensors run(WeirCompiled& compiled, const Tensors& inputs) {
  try {
    return compiled.runner->run(inputs);
  } catch (const std::exception& error) {
    TORCH_CHECK(
        std::string(error.what()).find("API call failed") == std::string::npos,
        "the compiled code failed, or does not take these sizes or datatypes; its own message is in the server's log");
    throw;
  }
}

bool is_single(const Tensors& tensors) {
  auto single = [](const at::Tensor& tensor) { return tensor.dim() > 0 && tensor.size(0) == 1; };
  return !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), single);
}

// Runs a single row beside a copy of itself, and returns its own part of the outputs.
Tensors run_two(WeirCompiled& compiled, const Tensors& inputs) {
  Tensors doubled;
  for (const auto& input : inputs) {
    doubled.push_back(at::cat({input, input}, 0));
  }
  auto outputs = run(compiled, doubled);
  for (auto& output : outputs) {
    if (output.dim() > 0 && output.size(0) == 2) {
      output = output.narrow(0, 0, 1);
    }
  }
  return outputs;
}

Tensors run_rows(WeirCompiled& compiled, const Tensors& inputs, bool batched) {
  if (!batched || !is_single(inputs)) {
    return run(compiled, inputs);
  }
  if (compiled.needs_two) {
    return run_two(compiled, inputs);
  }
  try {
    return run(compiled, inputs);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    auto outputs = run_two(compiled, inputs);
    compiled.needs_two = true;
    return outputs;
  }
}

} // namespace

WeirStatus weir_compiled_load(const char* library, size_t runs, WeirCompiled** compiled, char** error) {
  return weir::guarded(error, [&] {
    // Code for AMX ends the process unless the process has asked for the tiles.
    at::cpu::init_amx();
    auto made = std::make_unique<WeirCompiled>();
    made->runner = std::make_unique<AOTIModelContainerRunnerCpu>(library, std::max<size_t>(runs, 1));
    auto spec = made->runner->get_call_spec();
    TORCH_CHECK(spec.size() == 2, "the library describes neither inputs nor outputs");
    made->inputs = spec[0];
    made->outputs = spec[1];
    *compiled = made.release();
  });
}

void weir_compiled_free(WeirCompiled* compiled) {
  delete compiled;
}

const char* weir_compiled_inputs(const WeirCompiled* compiled) {
  return compiled->inputs.c_str();
}

const char* weir_compiled_outputs(const WeirCompiled* compiled) {
  return compiled->outputs.c_str();
}

WeirStatus weir_compiled_run(
    WeirCompiled* compiled,
    const WeirValue* values,
    size_t count,
    int32_t batched,
    WeirRun options,
    WeirAnswer** answer,
    char** error) {
  return weir::guarded(error, [&] {
    static_cast<void>(options);  // the code has no interpreter, and keeps no gradients
    c10::InferenceMode inference;
    auto outputs = run_rows(*compiled, inputs_of(values, count), batched != 0);
    std::vector<c10::IValue> flat(outputs.begin(), outputs.end());
    auto tuple = c10::ivalue::Tuple::create(std::move(flat));
    *answer = weir::flatten(c10::IValue(std::move(tuple)), WEIR_FIXED, at::kCPU).release();
  });
}
