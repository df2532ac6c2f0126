#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_read.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "argument.h"
#include "division.h"
#include "error.h"
#include "hints.h"
#include "hooks.h"
#include "meter.h"
#include "operands.h"
#include "operators.h"
#include "result.h"
#include "stream.h"
#include "vision.h"
#include "writes.h"

using torch::jit::IValue;

namespace {

// Owner of the sizes that WeirShapes point to.
using Sizes = std::vector<std::unique_ptr<std::vector<int64_t>>>;

WeirShape shape_of(const at::Tensor& tensor, Sizes& sizes) {
  sizes.push_back(std::make_unique<std::vector<int64_t>>(tensor.sizes().vec()));
  return {sizes.back()->data(), sizes.back()->size(), static_cast<int32_t>(tensor.scalar_type())};
}

// Returns the example inputs of a traced module. A saved trace keeps their sizes and types but not their elements, so
// these tensors have no memory, and only their shape may be read.
std::vector<IValue> traced_with(const std::string& path, const std::string& method) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  if (!reader.hasRecord("traced_inputs.pkl")) {
    return {};
  }
  auto examples = torch::jit::readArchiveAndTensors(
      "traced_inputs", "", "traced_inputs/", std::nullopt, std::nullopt, at::kCPU, reader);
  for (const auto& entry : examples.toGenericDict()) {
    if (entry.key().toStringRef() == method) {
      return entry.value().toListRef().vec();
    }
  }
  return {};
}

at::Device device_of(int32_t index) {
  return index < 0 ? at::Device(at::kCPU) : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
}

} // namespace

struct WeirModule {
  WeirModule(torch::jit::Module loaded, const std::string& method, at::Device on)
      : module(std::move(loaded)), forward(module.get_method(method)), device(on) {
    const auto& schema = forward.function().getSchema();
    for (const auto& argument : schema.arguments()) {
      kinds.push_back(weir::kind_of(argument.type()));
    }
    hooked = weir::has_hooks(module, method);
    if (!schema.returns().empty()) {
      auto type = schema.returns()[0].type();
      result = weir::result_of(hooked ? weir::type_after_hooks(module, type) : type);
    }
  }

  // Runs the method, with the hooks that a call of the module in Python would run.
  IValue operator()(std::vector<IValue> stack) {
    return hooked ? module(std::move(stack)) : forward(std::move(stack));
  }

  torch::jit::Module module;
  torch::jit::Method forward; // the method that runs, `forward` unless configured otherwise
  at::Device device;
  bool hooked = false; // the module has hooks, which belong to its `forward`
  std::vector<WeirKind> kinds; // of its arguments, self first
  weir::Result result;
  uint64_t device_bytes = 0;
  weir::Writes writes;
  Sizes sizes;
  std::vector<std::string> texts;
  std::vector<WeirArgument> arguments;
  std::vector<WeirShape> parameters;
  std::vector<const char*> paths;
  std::set<std::string> operators; // that the method may call
  std::vector<const char*> operator_names;
  std::vector<WeirHint> hints;
};

namespace {

void describe(WeirModule& module, const std::vector<IValue>& examples) {
  const auto& arguments = module.forward.function().getSchema().arguments();
  module.writes = weir::writes_of(module.module, module.forward);
  if (module.hooked) {
    weir::add_writes_of_hooks(module.module, module.writes);
  }
  const auto& written = module.writes.arguments;
  module.texts.reserve(2 * arguments.size()); // so that no text moves while pointers to it exist
  for (size_t i = 1; i < arguments.size(); ++i) {
    const auto& argument = arguments[i];
    const char* name = module.texts.emplace_back(argument.name()).c_str();
    const char* type = module.texts.emplace_back(argument.type()->annotation_str()).c_str();
    bool optional = argument.default_value().has_value() || argument.type()->kind() == c10::TypeKind::OptionalType;
    WeirShape example{nullptr, 0, -1};
    if (i - 1 < examples.size() && examples[i - 1].isTensor()) {
      example = shape_of(examples[i - 1].toTensor(), module.sizes);
    }
    module.arguments.push_back(
        {name, type, module.kinds[i], optional, i >= written.size() || written[i], example});
  }
  for (const auto& path : module.result.paths) {
    module.paths.push_back(path.c_str());
  }
  module.operators = weir::operators_of(module.module, module.forward);
  for (const auto& name : module.operators) {
    module.operator_names.push_back(name.c_str());
  }
  for (const auto& parameter : module.module.parameters()) {
    module.parameters.push_back(shape_of(parameter, module.sizes));
  }
}

std::string names_of_methods(const torch::jit::Module& module) {
  std::string names;
  for (const auto& method : module.get_methods()) {
    names += (names.empty() ? "" : ", ") + method.name();
  }
  return names.empty() ? "none" : names;
}

torch::jit::Module read(const std::string& path, at::Device device) {
  weir::check_divisions();
  weir::check_operands();
  try {
    return torch::jit::load(path, device);
  } catch (const std::exception& thrown) {
    // The shim's own torchvision operators are registered only on demand, so that a model's library can register its
    // own.
    if (std::string(thrown.what()).find("torchvision::") == std::string::npos) {
      throw;
    }
  }
  weir::register_vision_operators();
  return torch::jit::load(path, device);
}

std::unique_ptr<WeirModule> load(const std::string& path, const std::string& method, at::Device device) {
  auto loaded = read(path, device);
  TORCH_CHECK(
      loaded.find_method(method).has_value(), "the module has no method ", method, "; its methods are: ",
      names_of_methods(loaded), ". The parameter 'method' chooses one");
  auto module = std::make_unique<WeirModule>(std::move(loaded), method, device);
  describe(*module, traced_with(path, method));
  return module;
}

// Loads a module onto a CUDA device. Its weights are copied on the default stream, for which the streams that use the
// weights do not wait, so the caller waits for the device.
std::unique_ptr<WeirModule> load_to_cuda(const std::string& path, const std::string& method, at::Device device) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  weir::Metered metered(device);
  auto module = load(path, method, device);
  module->device_bytes = metered.meter().current();
  return module;
}

bool convolves(const torch::jit::Block& block) {
  static const std::unordered_set<std::string> kinds{
      "aten::_convolution", "aten::convolution", "aten::conv1d", "aten::conv2d", "aten::conv3d"};
  for (const auto* node : block.nodes()) {
    const auto& inner = node->blocks();
    bool below = std::any_of(inner.begin(), inner.end(), [](const auto* block) { return convolves(*block); });
    if (below || kinds.count(node->kind().toQualString()) != 0) {
      return true;
    }
  }
  return false;
}

// Returns true if a constant is a CUDA device, or a string from which the code makes one. The code of
// nn.MultiheadAttention has such a string only to compare it with the device of its input.
bool is_cuda(const torch::jit::Value& constant) {
  auto value = torch::jit::toIValue(&constant);
  if (!value.has_value()) {
    return false;
  }
  if (value->isDevice()) {
    return value->toDevice().is_cuda();
  }
  const auto& uses = constant.uses();
  return value->isString() && value->toStringRef().rfind("cuda", 0) == 0 &&
      std::any_of(uses.begin(), uses.end(), [](const torch::jit::Use& use) {
        return std::string(use.user->kind().toQualString()) == "aten::device";
      });
}

bool names_cuda(const torch::jit::Block& block) {
  for (const auto* node : block.nodes()) {
    if (node->kind() == c10::prim::Constant && is_cuda(*node->output())) {
      return true;
    }
    const auto& inner = node->blocks();
    if (std::string(node->kind().toQualString()) == "aten::cuda" ||
        (node->hasAttribute(c10::attr::Subgraph) && names_cuda(*node->g(c10::attr::Subgraph)->block())) ||
        std::any_of(inner.begin(), inner.end(), [](const auto* block) { return names_cuda(*block); })) {
      return true;
    }
  }
  return false;
}

std::vector<IValue> positional(const WeirModule& module, const WeirValue* values, size_t count) {
  const auto& arguments = module.forward.function().getSchema().arguments();
  TORCH_CHECK(count < arguments.size(), "more values are given than the method has arguments");
  std::vector<IValue> stack;
  stack.reserve(count + 1);
  for (size_t i = 0; i < count; ++i) {
    bool given = values[i].given != 0;
    stack.push_back(given ? weir::value_of(values[i], module.kinds[i + 1]) : arguments[i + 1].default_value().value_or(IValue()));
  }
  return stack;
}

std::vector<IValue> keyed(const WeirValue* values, size_t count) {
  c10::Dict<std::string, at::Tensor> entries;
  for (size_t i = 0; i < count; ++i) {
    TORCH_CHECK(values[i].key != nullptr && values[i].tensor != nullptr, "a Dict[str, Tensor] takes tensors only");
    entries.insert(values[i].key, *values[i].tensor);
  }
  return {entries};
}

// Copies outputs in host memory: the module may return a tensor that it keeps, and change it in its next run while the
// output is being sent. Outputs on a device need no copy here, because their download is queued before the next run.
void own_memory(WeirAnswer& answer) {
  for (auto& output : answer.outputs) {
    if (output.tensor.defined() && output.tensor.is_cpu()) {
      output.tensor = output.tensor.clone();
    }
  }
}

} // namespace

WeirStatus weir_module_load(
    const char* path,
    const char* method,
    int32_t device,
    WeirModule** module,
    char** error) {
  return weir::guarded(error, [&] {
    auto on = device_of(device);
    *module = (on.is_cuda() ? load_to_cuda(path, method, on) : load(path, method, on)).release();
  });
}

int32_t weir_module_convolves(const WeirModule* module) {
  if (module->hooked || module->writes.training) {
    return 0; // optimisation would drop hooks and training-mode behaviour
  }
  bool found = false;
  weir::quietly([&] {
    auto graph = module->forward.graph()->copy();
    torch::jit::Inline(*graph);
    found = convolves(*graph->block());
  });
  return found;
}

int32_t weir_module_names_cuda(const WeirModule* module) {
  bool found = true;
  weir::quietly([&] {
    auto graph = module->forward.graph()->copy();
    torch::jit::Inline(*graph);
    found = names_cuda(*graph->block());
  });
  return found;
}

WeirStatus weir_module_load_optimized(const char* path, WeirModule** module, char** error) {
  return weir::guarded(error, [&] {
    at::NoGradGuard no_gradients;
    // Loads the file again instead of copying: the code of a copy stays part of the original's code, so the constants
    // of an optimised copy would live as long as the original.
    auto loaded = torch::jit::load(path, at::Device(at::kCPU));
    loaded.eval();
    auto made = torch::jit::optimize_for_inference(loaded);
    *module = std::make_unique<WeirModule>(std::move(made), "forward", at::Device(at::kCPU)).release();
  });
}

void weir_module_free(WeirModule* module) {
  delete module;
}

int32_t weir_module_writes(const WeirModule* module, const char** where) {
  *where = module->writes.where.c_str();
  auto attributes = module->writes.attributes ? WEIR_WRITES_ATTRIBUTES : WEIR_WRITES_NOTHING;
  return module->writes.constants ? WEIR_WRITES_CONSTANTS : attributes;
}

void weir_module_operators(const WeirModule* module, const char* const** names, size_t* count) {
  *names = module->operator_names.data();
  *count = module->operator_names.size();
}

int32_t weir_module_trains(const WeirModule* module) {
  return module->writes.training;
}

WeirStatus weir_module_bytes(const WeirModule* module, uint64_t* bytes, char** error) {
  return weir::guarded(error, [&] {
    IValue::HashAliasedIValues values;
    IValue(module->module._ivalue()).getSubValues(values);
    std::unordered_set<const void*> counted;
    *bytes = 0;
    for (const auto& value : values) {
      if (value.isTensor() && value.toTensor().has_storage()) {
        const auto& storage = value.toTensor().storage();
        *bytes += counted.insert(storage.unsafeGetStorageImpl()).second ? storage.nbytes() : 0;
      }
    }
  });
}

WeirStatus weir_module_copy(const WeirModule* module, WeirModule** copy, char** error) {
  return weir::guarded(error, [&] {
    at::NoGradGuard no_gradients;
    auto made = std::make_unique<WeirModule>(module->module.deepcopy(), module->forward.name(), module->device);
    made->writes = module->writes;
    *copy = made.release();
  });
}

uint64_t weir_module_device_bytes(const WeirModule* module) {
  return module->device_bytes;
}

void weir_module_arguments(const WeirModule* module, const WeirArgument** arguments, size_t* count) {
  *arguments = module->arguments.data();
  *count = module->arguments.size();
}

WeirResult weir_module_result(const WeirModule* module) {
  const char* refusal = module->result.refusal.empty() ? nullptr : module->result.refusal.c_str();
  return {module->result.form, module->paths.data(), module->paths.size(), refusal};
}

void weir_module_parameters(const WeirModule* module, const WeirShape** shapes, size_t* count) {
  *shapes = module->parameters.data();
  *count = module->parameters.size();
}

WeirStatus weir_module_hints(WeirModule* module, const WeirHint** hints, size_t* count, char** error) {
  return weir::guarded(error, [&] {
    module->hints.clear();
    for (auto& hint : weir::hints_of(module->module, module->forward)) {
      module->sizes.push_back(std::make_unique<std::vector<int64_t>>(std::move(hint.sizes)));
      WeirShape sizes{module->sizes.back()->data(), module->sizes.back()->size(), hint.element_type};
      module->hints.push_back({hint.argument, hint.kind, hint.converted, sizes});
    }
    *hints = module->hints.data();
    *count = module->hints.size();
  });
}

WeirStatus weir_module_run(
    WeirModule* module,
    const WeirValue* values,
    size_t count,
    WeirRun options,
    WeirAnswer** answer,
    char** error) {
  return weir::guarded(error, [&] {
    c10::InferenceMode inference(options.inference_mode != 0);
    at::NoGradGuard no_gradients;
    torch::jit::GraphOptimizerEnabledGuard optimize(options.optimize != 0);
    c10::OptionalStreamGuard stream;
    if (options.stream != nullptr) {
      stream.reset_stream(options.stream->stream);
    }
    std::optional<weir::Metered> metered;
    if (options.metered != 0) {
      metered.emplace(module->device);
    }
    bool dict = count > 0 && values[0].key != nullptr;
    auto stack = dict ? keyed(values, count) : positional(*module, values, count);
    auto made = weir::flatten((*module)(std::move(stack)), module->result.form, module->device);
    if (module->writes.attributes || module->writes.constants) {
      own_memory(*made);
    }
    made->peak_bytes = metered.has_value() ? metered->meter().peak() : 0;
    *answer = made.release();
  });
}

void weir_answer_free(WeirAnswer* answer) {
  delete answer;
}

size_t weir_answer_count(const WeirAnswer* answer) {
  return answer->outputs.size();
}

uint64_t weir_answer_peak_bytes(const WeirAnswer* answer) {
  return answer->peak_bytes;
}

WeirOutput weir_answer_take(WeirAnswer* answer, size_t index) {
  if (index >= answer->outputs.size()) {
    return {nullptr, nullptr, 0, 0, nullptr};
  }
  auto& output = answer->outputs[index];
  at::Tensor* tensor = output.tensor.defined() ? new (std::nothrow) at::Tensor(std::move(output.tensor)) : nullptr;
  auto* strings = reinterpret_cast<const uint8_t*>(output.strings.data());
  const char* path = index < answer->paths.size() ? answer->paths[index].c_str() : nullptr;
  return {tensor, strings, output.strings.size(), output.count, path};
}

WeirStatus weir_archive_inspect(const char* path, uint64_t* claimed, int32_t* is_script, char** error) {
  return weir::guarded(error, [&] {
    caffe2::serialize::PyTorchStreamReader reader{std::string(path)};
    *claimed = 0;
    for (const auto& record : reader.getAllRecords()) {
      uint64_t size = reader.getRecordSize(record);
      *claimed = size > UINT64_MAX - *claimed ? UINT64_MAX : *claimed + size;
    }
    *is_script = reader.hasRecord("constants.pkl") && reader.hasRecord("data.pkl");
  });
}
