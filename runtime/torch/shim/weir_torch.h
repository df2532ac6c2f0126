// The part of libtorch that the backend uses: a module with its schema and example inputs, a call of its method under
// inference mode, strings that may contain NUL, tensors of every element type that own or borrow their bytes, streams
// and copies of a CUDA device, and the settings of Triton's parameters.
//
// Every function catches all C++ exceptions. A function that can fail returns a WeirStatus. Unless the status is
// WEIR_OK, it also sets *error to a text, which the caller frees with weir_text_free.
#pragma once

#include <cstddef>
#include <cstdint>

namespace at {
class Tensor;
}

extern "C" {

enum WeirStatus : int32_t { WEIR_OK = 0, WEIR_FAILED = 1, WEIR_OUT_OF_MEMORY = 2 };

// The kind of value that an argument takes. Numbers come from requests as tensors, strings as the strings of a
// WeirValue.
enum WeirKind : int32_t {
  WEIR_TENSOR = 0,
  WEIR_STRINGS = 1,      // List[str]
  WEIR_TENSOR_DICT = 2,  // Dict[str, Tensor]
  WEIR_TENSOR_LIST = 3,  // List[Tensor]
  WEIR_INT = 4,
  WEIR_FLOAT = 5,
  WEIR_BOOL = 6,
  WEIR_STRING = 7,
  WEIR_INTS = 8,         // List[int]
  WEIR_FLOATS = 9,       // List[float]
  WEIR_BOOLS = 10,       // List[bool]
  WEIR_OTHER = 11,
};

// The way in which the outputs of a result are identified.
enum WeirForm : int32_t {
  WEIR_FIXED = 0,  // by their order, which is the same in every run
  WEIR_LIST = 1,   // by their index in a list, which may be of another length in each run
  WEIR_KEYED = 2,  // by their path, given with each answer
};

// The state of the module that `forward` may write to; if the analysis is in doubt, all of it.
enum WeirWrites : int32_t {
  WEIR_WRITES_NOTHING = 0,
  WEIR_WRITES_ATTRIBUTES = 1,  // parameters, buffers and other attributes, of which a copy has its own
  WEIR_WRITES_CONSTANTS = 2,   // also tensors in the code, which copies share
};

struct WeirModule;
struct WeirAnswer;
struct WeirStream;  // a queue of a CUDA device's work, which runs in order
struct WeirEvent;   // a point in a stream's queue of work

// Sizes and element type (c10::ScalarType) of a tensor; element_type is -1 if there is no tensor.
struct WeirShape {
  const int64_t* sizes;
  size_t rank;
  int32_t element_type;
};

// One argument of the method, not counting self. Valid as long as its module.
struct WeirArgument {
  const char* name;
  const char* type;    // in TorchScript's notation
  WeirKind kind;
  int32_t optional;    // 1 if it has a default or may be None
  int32_t written_to;  // 1 if the graph may change it in place
  WeirShape example;   // shape when the module was traced; element type -1 if it was not
};

// One value for one argument, or one entry of the only argument if that is a dict.
struct WeirValue {
  const char* key;         // of the dict's entry; null for a positional argument
  const at::Tensor* tensor;  // null if `strings` or nothing is given
  const uint8_t* strings;  // elements, each prefixed with its length as a little-endian u32
  size_t strings_size;     // bytes
  int32_t given;           // 0: use the argument's default, or None without a default
};

// The result of the method, according to its type. Valid as long as its module.
struct WeirResult {
  WeirForm form;
  const char* const* paths;  // of the outputs, if the form is WEIR_FIXED: steps joined by '.', each a name, or '#' with
                             // a position
  size_t count;
  const char* refusal;       // the reason that it cannot be served; null if it can
};

struct WeirRun {
  int32_t inference_mode;    // 0: only gradients are turned off
  int32_t optimize;          // the JIT's optimised execution
  int32_t metered;           // counts the device memory of the run
  const WeirStream* stream;  // the stream to queue the work on; null for the processor
};

// One output: a contiguous tensor in host memory or on the module's device, which the caller owns, or strings, which
// the answer owns.
struct WeirOutput {
  at::Tensor* tensor;
  const uint8_t* strings;  // as in WeirValue
  size_t strings_size;
  size_t strings_count;
  const char* path;  // as in WeirResult if the form is WEIR_KEYED, otherwise null; owned by the answer
};

// Loads a TorchScript archive onto a device (-1 for the CPU, otherwise the CUDA index), and prepares one of its methods
// for inference. The copy of the weights to a CUDA device may still run when the call returns; weir_cuda_synchronize
// waits for it.
WeirStatus weir_module_load(
    const char* path,
    const char* method,
    int32_t device,
    WeirModule** module,
    char** error);
void weir_module_free(WeirModule* module);
void weir_module_arguments(const WeirModule* module, const WeirArgument** arguments, size_t* count);
WeirResult weir_module_result(const WeirModule* module);
// Returns 1 if the method calls a convolution; 0 if it does not, or if its graph cannot be read.
int32_t weir_module_convolves(const WeirModule* module);
// Returns 1 if the method's code names a CUDA device or its graph cannot be read; 0 if it runs on the device of its
// tensors.
int32_t weir_module_names_cuda(const WeirModule* module);
// Returns a WeirWrites, and a description of the first such write, which is valid as long as the module.
int32_t weir_module_writes(const WeirModule* module, const char** where);
// Returns the names of the operators that the method may call, such as aten::add. The names live as long as the module.
void weir_module_operators(const WeirModule* module, const char* const** names, size_t* count);
// Returns 1 if the method reads its training flag, and the module was saved in training mode.
int32_t weir_module_trains(const WeirModule* module);
// Returns the bytes of the tensors among the module's attributes.
WeirStatus weir_module_bytes(const WeirModule* module, uint64_t* bytes, char** error);
// Copies a module in its current state, which no other thread may change meanwhile. The copy shares the code, which is
// compiled once for both. Tensors that share memory in the module do not share it in the copy. As after
// weir_module_load, weir_cuda_synchronize waits for the copies on a CUDA device.
WeirStatus weir_module_copy(const WeirModule* module, WeirModule** copy, char** error);
// Loads a TorchScript archive onto the CPU, optimised for inference: its weights become constants of its code, in the
// layout that the CPU's convolutions use. weir_module_arguments returns no arguments for it.
WeirStatus weir_module_load_optimized(const char* path, WeirModule** module, char** error);
// Returns the shapes of the parameters, in the order of their registration.
void weir_module_parameters(const WeirModule* module, const WeirShape** shapes, size_t* count);
// A hint from the code about an argument's shape. `kind` is a HintKind of hints.h. Valid as long as its module.
struct WeirHint {
  size_t argument;     // index, without self
  int32_t kind;
  int32_t converted;   // 1 if the argument's element type is converted first
  WeirShape sizes;     // with the weight's element type, -1 if there is none
};
// Returns the hints, in the order of the operations that give them.
WeirStatus weir_module_hints(WeirModule* module, const WeirHint** hints, size_t* count, char** error);
// Returns the bytes of parameters, buffers and constants on the module's CUDA device; 0 on the CPU.
uint64_t weir_module_device_bytes(const WeirModule* module);

// Calls the method. Safe to call from several threads at once. `values` has one value per argument in order, or, with
// keys, one per entry of the dict. With a stream, the call returns when the work is queued there, unless the model
// itself waits for it; tensors on the device may only be used on that stream.
WeirStatus weir_module_run(
    WeirModule* module,
    const WeirValue* values,
    size_t count,
    WeirRun options,
    WeirAnswer** answer,
    char** error);
void weir_answer_free(WeirAnswer* answer);
size_t weir_answer_count(const WeirAnswer* answer);
// Returns the peak bytes on the module's device in a metered run, not counting its inputs.
uint64_t weir_answer_peak_bytes(const WeirAnswer* answer);
// Returns output `index`. Its tensor can be taken only once. All fields are null or 0 if there is no such output, or no
// memory.
WeirOutput weir_answer_take(WeirAnswer* answer, size_t index);

// Sums the unpacked sizes in an archive's directory, up to UINT64_MAX, and finds out whether it has TorchScript's
// records.
WeirStatus weir_archive_inspect(const char* path, uint64_t* claimed, int32_t* is_script, char** error);

struct WeirView {
  WeirShape shape;
  void* data;
  size_t bytes;
  int32_t on_processor;  // 1 if `data` is in host memory
};

// Makes a tensor in host memory with uninitialised elements.
WeirStatus weir_tensor_empty(WeirShape shape, at::Tensor** tensor, char** error);
// Makes a tensor over bytes that `release(owner)` frees after the last tensor that uses them.
WeirStatus weir_tensor_borrow(
    const void* data,
    WeirShape shape,
    void* owner,
    void (*release)(void*),
    at::Tensor** tensor,
    char** error);
// Makes a tensor in page-locked memory with uninitialised elements. libtorch reuses the memory once the tensor is freed
// and all queued copies from and to it are done.
WeirStatus weir_tensor_pinned(WeirShape shape, at::Tensor** tensor, char** error);
// Queues on stream `on` the copy of a page-locked tensor to that stream's device. Work on stream `reader` may use the
// copy after it has waited for an event recorded after this call. The copy and `pinned` may be freed at any time.
WeirStatus weir_tensor_upload(
    const at::Tensor* pinned,
    const WeirStream* on,
    const WeirStream* reader,
    at::Tensor** copy,
    char** error);
// Queues the tensor's copy to page-locked memory on the stream that made the tensor. The copy may be read once an event
// recorded on the stream after this call has completed. Both tensors may be freed at any time.
WeirStatus weir_tensor_download(const at::Tensor* tensor, const WeirStream* on, at::Tensor** copy, char** error);

// Queues the copy of a tensor into the first rows of another one on the same device, which has the same type and the same
// dimensions after the first.
WeirStatus weir_tensor_copy_rows(const at::Tensor* from, const at::Tensor* to, const WeirStream* on, char** error);
// Returns a view of the first rows of a tensor, or of the whole tensor if `rows` is negative.
WeirStatus weir_tensor_first_rows(const at::Tensor* tensor, int64_t rows, at::Tensor** first, char** error);

// Returns shape and memory of a contiguous tensor, valid as long as the tensor. The element type is -1 and the memory
// null for a tensor that has neither.
WeirView weir_tensor_view(const at::Tensor* tensor);
void weir_tensor_free(at::Tensor* tensor);

// Sets the number of threads per operation, for operations that this thread starts.
WeirStatus weir_set_intra_op_threads(int32_t count, char** error);
// Sets the number of threads for parallel operations of the whole process. Fails once the pool has started.
WeirStatus weir_set_inter_op_threads(int32_t count, char** error);
// Settings of the whole process.
void weir_set_jit_executor(int32_t enabled);
void weir_set_jit_profiling(int32_t enabled);
void weir_set_tensor_fuser(int32_t enabled);
void weir_set_cudnn(int32_t enabled);

// The following functions need libtorch_cuda to be open.

// Returns the number of visible CUDA devices.
WeirStatus weir_cuda_devices(int32_t* count, char** error);
// Returns memory cached by the device and page-locked allocators to the driver. Waits for queued work.
WeirStatus weir_cuda_empty_cache(char** error);
// Waits for all work that is queued on a device. Must not run beside a capture of a CUDA graph.
WeirStatus weir_cuda_synchronize(int32_t device, char** error);
// Returns the bytes of a device that the allocator holds for this process, and those of them in use by tensors. Fails
// before the first use of the device. May be called from any thread.
WeirStatus weir_cuda_memory(int32_t device, uint64_t* reserved, uint64_t* allocated, char** error);

// State of a GPU, as its driver reports it. A negative number means that the driver does not report the value.
struct WeirGpu {
  char uuid[48];        // GPU-…, in the driver's notation
  double utilization;   // share of the time, 0 to 1
  double memory_total;  // bytes
  double memory_used;
  double power;  // watts
  double power_limit;
  double energy;  // joules since the driver was loaded
};

// Reads the state of a visible CUDA device. Returns 0 if the state is unavailable. May be called from any thread.
int32_t weir_gpu_read(int32_t index, WeirGpu* gpu);

// Takes a stream of a device from libtorch's pool. The pool may return the same stream twice, which is correct, but
// makes the users wait for each other. May be called from any thread.
WeirStatus weir_stream_new(int32_t device, WeirStream** stream, char** error);
// Returns the number that no other stream of the device has.
int64_t weir_stream_number(const WeirStream* stream);
// Makes work that is queued on the stream from now on wait for the event.
WeirStatus weir_stream_wait(const WeirStream* stream, const WeirEvent* event, char** error);
// Blocks until all work queued on the stream is done.
WeirStatus weir_stream_synchronize(const WeirStream* stream, char** error);
void weir_stream_free(WeirStream* stream);

// Records an event that completes when all work queued on the stream so far is done.
WeirStatus weir_stream_record(const WeirStream* stream, WeirEvent** event, char** error);
// Blocks until the event has completed.
WeirStatus weir_event_synchronize(const WeirEvent* event, char** error);
// Returns the time between two completed events in milliseconds, by the device's clock.
WeirStatus weir_event_elapsed(const WeirEvent* from, const WeirEvent* to, double* milliseconds, char** error);
void weir_event_free(WeirEvent* event);

// Opens a shared library permanently, with its symbols global. Returns null, or the loader's message.
char* weir_open_library(const char* name);

// Opens a library of operators permanently. A child process opens it first; if that fails, so does this function.
WeirStatus weir_open_operators(const char* path, char** error);

void weir_text_free(char* text);
}
