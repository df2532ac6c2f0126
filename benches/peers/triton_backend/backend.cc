// A minimal TorchScript backend for Triton on the CPU, so that the measurement is of Triton and not of the backend. Its
// name is `pytorch`, and it reads the same repositories as weir-runtime. For each batch it concatenates the inputs
// (without a copy if one request is the whole batch), runs one forward call, and copies each request's rows once into
// the buffer from Triton.
//
// This is not NVIDIA's pytorch_backend, which does more and is not on PyPI.

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/freeze_module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "triton.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Error = TRITONSERVER_Error*;

struct Loaded {
  torch::jit::Module module;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  bool batches;
};

// A request of the batch, and the response that receives its rows of the outputs.
struct BatchEntry {
  TRITONBACKEND_Request* request;
  TRITONBACKEND_Response* response = nullptr;
  int64_t rows = 0;
};

struct Clock {
  uint64_t start, compute_start, compute_end;
};

uint64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void check(Error error) {
  if (error == nullptr) return;
  const std::string message = TRITONSERVER_ErrorMessage(error);
  TRITONSERVER_ErrorDelete(error);
  throw std::runtime_error(message);
}

// Ignores the error of a call whose failure has no consequences.
void drop(Error error) {
  if (error != nullptr) TRITONSERVER_ErrorDelete(error);
}

at::ScalarType scalar(int datatype) {
  switch (datatype) {
    case kTypeBool: return at::kBool;
    case kTypeUint8: return at::kByte;
    case kTypeInt8: return at::kChar;
    case kTypeInt16: return at::kShort;
    case kTypeInt32: return at::kInt;
    case kTypeInt64: return at::kLong;
    case kTypeFp16: return at::kHalf;
    case kTypeFp32: return at::kFloat;
    case kTypeFp64: return at::kDouble;
    case kTypeBf16: return at::kBFloat16;
    default: throw std::runtime_error("datatype " + std::to_string(datatype) + " is not supported");
  }
}

int datatype(at::ScalarType type) {
  switch (type) {
    case at::kBool: return kTypeBool;
    case at::kByte: return kTypeUint8;
    case at::kChar: return kTypeInt8;
    case at::kShort: return kTypeInt16;
    case at::kInt: return kTypeInt32;
    case at::kLong: return kTypeInt64;
    case at::kHalf: return kTypeFp16;
    case at::kFloat: return kTypeFp32;
    case at::kDouble: return kTypeFp64;
    case at::kBFloat16: return kTypeBf16;
    default: throw std::runtime_error("the model returned a type Triton has no name for");
  }
}

// Returns the names in the list `key` of the configuration as Triton writes it: compact JSON, in which each tensor
// begins with its name.
std::vector<std::string> names(const std::string& config, const std::string& key) {
  const std::string list = "\"" + key + "\":[", name = "{\"name\":\"";
  size_t at = config.find(list);
  if (at == std::string::npos) throw std::runtime_error("no " + key + " in the configuration");
  std::vector<std::string> found;
  int depth = 1;
  for (at += list.size(); depth > 0 && at < config.size(); at++) {
    if (depth == 1 && config.compare(at, name.size(), name) == 0) {
      const size_t from = at + name.size();
      found.push_back(config.substr(from, config.find('"', from) - from));
    }
    depth += (config[at] == '[' || config[at] == '{') - (config[at] == ']' || config[at] == '}');
  }
  return found;
}

std::string configuration(TRITONBACKEND_Model* model) {
  TRITONSERVER_Message* message;
  check(TRITONBACKEND_ModelConfig(model, 1, &message));
  const char* base;
  size_t size;
  check(TRITONSERVER_MessageSerializeToJson(message, &base, &size));
  const std::string text(base, size);
  drop(TRITONSERVER_MessageDelete(message));
  return text;
}

std::unique_ptr<Loaded> load(TRITONBACKEND_Model* model) {
  const std::string config = configuration(model);
  int artifact;
  const char* folder;
  uint64_t version;
  check(TRITONBACKEND_ModelRepository(model, &artifact, &folder));
  check(TRITONBACKEND_ModelVersion(model, &version));
  auto module = torch::jit::load(std::string(folder) + "/" + std::to_string(version) + "/model.pt");
  module.eval();
  const bool batches = config.find("\"max_batch_size\":0") == std::string::npos;
  return std::unique_ptr<Loaded>(new Loaded{
      torch::jit::freeze_module(module), names(config, "input"), names(config, "output"), batches});
}

// Joins one input of all requests to one tensor.
at::Tensor gather(std::vector<BatchEntry>& entries, const std::string& name) {
  struct Piece {
    const void* data;
    uint64_t size;
  };
  std::vector<Piece> pieces;
  std::vector<int64_t> shape;
  int64_t rows = 0;
  int type = 0;
  for (BatchEntry& entry : entries) {
    TRITONBACKEND_Input* input;
    const int64_t* dims;
    uint32_t dims_count, buffers;
    check(TRITONBACKEND_RequestInput(entry.request, name.c_str(), &input));
    check(TRITONBACKEND_InputProperties(input, nullptr, &type, &dims, &dims_count, nullptr, &buffers));
    if (shape.empty()) shape.assign(dims, dims + dims_count);
    entry.rows = dims_count > 0 ? dims[0] : 1;
    rows += entry.rows;
    for (uint32_t i = 0; i < buffers; i++) {
      Piece piece;
      int memory = kMemoryCpu;
      int64_t id = 0;
      check(TRITONBACKEND_InputBuffer(input, i, &piece.data, &piece.size, &memory, &id));
      if (memory == kMemoryGpu) throw std::runtime_error("an input lies on a GPU");
      pieces.push_back(piece);
    }
  }
  if (!shape.empty() && entries.size() > 1) shape[0] = rows;
  const auto options = at::TensorOptions().dtype(scalar(type));
  // libtorch's kernels need an alignment of 16 bytes.
  if (pieces.size() == 1 && reinterpret_cast<uintptr_t>(pieces[0].data) % 16 == 0) {
    return at::from_blob(const_cast<void*>(pieces[0].data), shape, options);
  }
  at::Tensor tensor = at::empty(shape, options);
  char* to = static_cast<char*>(tensor.data_ptr());
  for (const Piece& piece : pieces) {
    std::memcpy(to, piece.data, piece.size);
    to += piece.size;
  }
  return tensor;
}

std::vector<at::Tensor> tensors(const torch::jit::IValue& value) {
  if (value.isTensor()) return {value.toTensor().contiguous()};
  std::vector<at::Tensor> found;
  for (const auto& element : value.toTuple()->elements()) {
    found.push_back(element.toTensor().contiguous());
  }
  return found;
}

// Copies the rows of one output to the response of each request.
void scatter(const std::vector<BatchEntry>& entries, const at::Tensor& tensor, const std::string& name, bool batches) {
  std::vector<int64_t> shape(tensor.sizes().begin(), tensor.sizes().end());
  const int64_t rows = batches ? shape.at(0) : 1;
  const size_t row = rows > 0 ? tensor.nbytes() / rows : 0;
  const char* from = static_cast<const char*>(tensor.data_ptr());
  for (const BatchEntry& entry : entries) {
    const size_t size = batches ? row * entry.rows : tensor.nbytes();
    if (batches) shape[0] = entry.rows;
    TRITONBACKEND_Output* output;
    void* to;
    int memory = kMemoryCpu;
    int64_t id = 0;
    check(TRITONBACKEND_ResponseOutput(
        entry.response, &output, name.c_str(), datatype(tensor.scalar_type()), shape.data(), shape.size()));
    check(TRITONBACKEND_OutputBuffer(output, &to, size, &memory, &id));
    if (memory == kMemoryGpu) throw std::runtime_error("Triton wants an output on a GPU");
    std::memcpy(to, from, size);
    from += size;
  }
}

void run(Loaded& model, std::vector<BatchEntry>& entries, Clock& clock) {
  c10::InferenceMode guard;
  std::vector<torch::jit::IValue> inputs;
  for (const std::string& name : model.inputs) inputs.emplace_back(gather(entries, name));
  clock.compute_start = now_ns();
  const auto outputs = tensors(model.module.forward(std::move(inputs)));
  clock.compute_end = now_ns();
  if (outputs.size() != model.outputs.size()) throw std::runtime_error("not as many outputs as configured");
  for (size_t i = 0; i < outputs.size(); i++) scatter(entries, outputs[i], model.outputs[i], model.batches);
}

void finish(TRITONBACKEND_ModelInstance* instance, std::vector<BatchEntry>& entries, const Clock& clock, const std::string& fault) {
  for (BatchEntry& entry : entries) {
    const Error error = fault.empty() ? nullptr : TRITONSERVER_ErrorNew(kErrorInternal, fault.c_str());
    drop(TRITONBACKEND_ResponseSend(entry.response, kResponseCompleteFinal, error));
    drop(error);
  }
  const uint64_t end = now_ns();
  int64_t rows = 0;
  for (BatchEntry& entry : entries) {
    rows += entry.rows;
    drop(TRITONBACKEND_ModelInstanceReportStatistics(
        instance, entry.request, fault.empty(), clock.start, clock.compute_start, clock.compute_end, end));
    drop(TRITONBACKEND_RequestRelease(entry.request, kRequestReleaseAll));
  }
  drop(TRITONBACKEND_ModelInstanceReportBatchStatistics(
      instance, rows, clock.start, clock.compute_start, clock.compute_end, end));
}

}  // namespace

EXPORT Error TRITONBACKEND_Initialize(TRITONBACKEND_Backend*) {
  // The number of threads is that of the available cores, which is one if the server is pinned; OMP_NUM_THREADS
  // overrides it.
  at::set_num_threads(at::get_num_threads());
  return nullptr;
}

EXPORT Error TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  try {
    return TRITONBACKEND_ModelSetState(model, load(model).release());
  } catch (const std::exception& error) {
    return TRITONSERVER_ErrorNew(kErrorInvalidArgument, error.what());
  }
}

EXPORT Error TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  void* state = nullptr;
  if (const Error error = TRITONBACKEND_ModelState(model, &state)) return error;
  delete static_cast<Loaded*>(state);
  return nullptr;
}

EXPORT Error TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, const uint32_t count) {
  const uint64_t start = now_ns();
  Clock clock{start, start, start};
  TRITONBACKEND_Model* model;
  void* state;
  if (const Error error = TRITONBACKEND_ModelInstanceModel(instance, &model)) return error;
  if (const Error error = TRITONBACKEND_ModelState(model, &state)) return error;
  std::vector<BatchEntry> entries(count);
  for (uint32_t i = 0; i < count; i++) {
    entries[i].request = requests[i];
    if (const Error error = TRITONBACKEND_ResponseNew(&entries[i].response, requests[i])) return error;
  }
  std::string fault;
  try {
    run(*static_cast<Loaded*>(state), entries, clock);
  } catch (const std::exception& error) {
    fault = error.what();
  }
  finish(instance, entries, clock, fault);
  return nullptr;
}
