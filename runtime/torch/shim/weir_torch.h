// What the backend needs of libtorch, and no more: a module with its schema and example inputs, a
// forward call under inference mode, strings that may hold NUL, tensors of every element type that own
// or borrow their bytes, and the few switches Triton's parameters turn.
//
// Every function catches all C++ exceptions. One that can fail returns a WeirStatus and, when that is
// not WEIR_OK, puts a text into *error that the caller frees with weir_text_free.
#pragma once

#include <cstddef>
#include <cstdint>

namespace at {
class Tensor;
}

extern "C" {

enum WeirStatus : int32_t { WEIR_OK = 0, WEIR_FAILED = 1, WEIR_OUT_OF_MEMORY = 2 };

enum WeirKind : int32_t {
  WEIR_TENSOR = 0,
  WEIR_OPTIONAL_TENSOR = 1,
  WEIR_STRINGS = 2,      // List[str]
  WEIR_TENSOR_DICT = 3,  // Dict[str, Tensor]
  WEIR_OTHER = 4,
};

struct WeirModule;
struct WeirAnswer;

// Sizes and element type (c10::ScalarType) of a tensor; element_type is -1 where there is none.
struct WeirShape {
  const int64_t* sizes;
  size_t rank;
  int32_t element_type;
};

// One argument of `forward`, without self. Lives as long as its module.
struct WeirArgument {
  const char* name;
  const char* type;    // as TorchScript writes it
  WeirKind kind;
  int32_t has_default;
  int32_t written_to;  // the graph may change it in place
  WeirShape example;   // what the module was traced with, where it was
};

// One value for one argument, or one entry of the only argument when that is a dict.
struct WeirValue {
  const char* key;         // of the dict's entry; null for a positional argument
  const at::Tensor* tensor;  // null where `strings` or nothing is given
  const uint8_t* strings;  // elements, each after its length as a little-endian u32
  size_t strings_size;     // bytes
  int32_t given;           // 0: the argument's default, else None
};

struct WeirRun {
  int32_t inference_mode;  // else only without gradients
  int32_t optimize;        // the JIT's optimised execution
  int32_t empty_cache;     // give cached device memory back afterwards
};

// One output: a contiguous tensor in the processor's memory, which the caller owns, or strings, which
// the answer owns.
struct WeirOutput {
  at::Tensor* tensor;
  const uint8_t* strings;  // as in WeirValue
  size_t strings_size;
  size_t strings_count;
};

// Loads a TorchScript archive onto a device (-1: the processor, else the CUDA index) and prepares it
// for inference.
WeirStatus weir_module_load(const char* path, int32_t device, WeirModule** module, char** error);
void weir_module_free(WeirModule* module);
void weir_module_arguments(const WeirModule* module, const WeirArgument** arguments, size_t* count);
// The shapes of the parameters, in the order they were registered.
void weir_module_parameters(const WeirModule* module, const WeirShape** shapes, size_t* count);

// Calls `forward`. Safe to call from several threads at once. `values` are one per argument in order,
// or with keys one per entry of the dict.
WeirStatus weir_module_run(
    WeirModule* module,
    const WeirValue* values,
    size_t count,
    WeirRun options,
    WeirAnswer** answer,
    char** error);
void weir_answer_free(WeirAnswer* answer);
size_t weir_answer_count(const WeirAnswer* answer);
// Hands out output `index`; its tensor can be taken once.
WeirOutput weir_answer_take(WeirAnswer* answer, size_t index);

// Sums the sizes that an archive's directory claims, and tells whether it holds what TorchScript needs.
WeirStatus weir_archive_inspect(const char* path, uint64_t* claimed, int32_t* is_script, char** error);

struct WeirView {
  WeirShape shape;
  void* data;
  size_t bytes;
};

// A tensor in the processor's memory with uninitialised elements.
WeirStatus weir_tensor_empty(WeirShape shape, at::Tensor** tensor, char** error);
// A tensor over bytes that `release(owner)` frees when the last tensor on them is gone.
WeirStatus weir_tensor_borrow(
    const void* data,
    WeirShape shape,
    void* owner,
    void (*release)(void*),
    at::Tensor** tensor,
    char** error);
// A copy on the CUDA device of that index.
WeirStatus weir_tensor_to_cuda(const at::Tensor* tensor, int32_t device, at::Tensor** copy, char** error);

// Shape and memory of a contiguous tensor; lives as long as the tensor.
WeirView weir_tensor_view(const at::Tensor* tensor);
void weir_tensor_free(at::Tensor* tensor);

// Threads of one operation, for operations that this thread starts.
WeirStatus weir_set_intra_op_threads(int32_t count, char** error);
// Threads for operations side by side, for the whole process; fails once the pool runs.
WeirStatus weir_set_inter_op_threads(int32_t count, char** error);
// Switches of the whole process.
void weir_set_jit_executor(int32_t enabled);
void weir_set_jit_profiling(int32_t enabled);
void weir_set_tensor_fuser(int32_t enabled);
void weir_set_cudnn(int32_t enabled);

// How many CUDA devices are visible; libtorch_cuda must be open.
WeirStatus weir_cuda_devices(int32_t* count, char** error);

// Opens a shared library for good, its symbols visible to all; null, or the loader's complaint.
char* weir_open_library(const char* name);

void weir_text_free(char* text);
}
