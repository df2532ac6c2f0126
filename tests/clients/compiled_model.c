// A model as AOTInductor compiles it, written by hand against the C interface of its libraries, so that tests need a C
// compiler but no PyTorch: y = 2 x, of floats [N, 4] with 2 <= N <= 16, as torch compiles a variable batch. It checks
// its inputs as AOTInductor's code does. WRONG is the number of one of the faults below, or 0.
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void* Tensor;
int32_t aoti_torch_get_data_ptr(Tensor, void**);
int32_t aoti_torch_get_sizes(Tensor, int64_t**);
int32_t aoti_torch_get_dim(Tensor, int64_t*);
int32_t aoti_torch_get_dtype(Tensor, int32_t*);
int32_t aoti_torch_delete_tensor_object(Tensor);
int32_t aoti_torch_empty_strided(
    int64_t, const int64_t*, const int64_t*, int32_t dtype, int32_t device, int32_t index, Tensor*);

#define DIES_IN_RUN 1
#define DIES_AT_LOAD 2
#define ENDS_AT_LOAD 3
#define IS_NO_MODEL 4
#define CANNOT_START 5
#define NEEDS_MORE 6
#define HAS_NO_TREE 7
#define FAILS 8

#if WRONG == DIES_AT_LOAD
__attribute__((constructor)) static void die(void) { raise(SIGILL); }
#elif WRONG == ENDS_AT_LOAD
__attribute__((constructor)) static void end(void) { exit(3); }
#elif WRONG == NEEDS_MORE
int a_function_of_a_later_libtorch(void);
__attribute__((constructor)) static void need(void) { a_function_of_a_later_libtorch(); }
#endif

static const char* INPUTS =
    "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": ["
    "{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": ["
    "{\"type\": null, \"context\": null, \"children_spec\": []}]},"
    "{\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]";
static const char* OUTPUTS =
    "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"doubled\\\"]\", \"children_spec\": ["
    "{\"type\": null, \"context\": null, \"children_spec\": []}]}]";

int32_t AOTInductorModelContainerGetCallSpec(void* model, const char** inputs, const char** outputs) {
  *inputs = WRONG == HAS_NO_TREE ? "?" : INPUTS;
  *outputs = OUTPUTS;
  return 0;
}

int32_t AOTInductorModelContainerCreateWithDevice(void** model, size_t runs, const char* device, const char* folder) {
  *model = malloc(1);
  return WRONG == CANNOT_START;
}

int32_t AOTInductorModelContainerDelete(void* model) {
  free(model);
  return 0;
}

int32_t AOTInductorModelContainerGetNumOutputs(void* model, size_t* count) {
  *count = 1;
  return 0;
}

// Functions of libraries with weights, which the loader looks up and no test calls.
#define UNUSED(name) \
  int32_t AOTInductorModel##name(void) { return 1; }
UNUSED(ContainerGetConstantName)
UNUSED(ContainerGetConstantOriginalFQN)
UNUSED(ContainerGetConstantDtype)
UNUSED(ContainerExtractConstantsMap)
UNUSED(ContainerUpdateUserManagedConstantBuffer)
UNUSED(ContainerUpdateConstantBuffer)
UNUSED(ContainerUpdateInactiveConstantBuffer)
UNUSED(ContainerRunConstantFolding)
UNUSED(ContainerSwapConstantBuffer)
UNUSED(ContainerFreeInactiveConstantBuffer)
UNUSED(ContainerGetConstantsBlobSize)
UNUSED(UpdateConstantsFromBlob)

int32_t AOTInductorModelContainerGetNumConstants(void* model, size_t* count) {
  *count = 0;
  return 0;
}

static bool takes(Tensor x) {
  int64_t rank = 0;
  int32_t dtype = 0;
  int64_t* sizes = NULL;
  aoti_torch_get_dim(x, &rank);
  aoti_torch_get_dtype(x, &dtype);
  aoti_torch_get_sizes(x, &sizes);
  return rank == 2 && dtype == 6 && sizes[0] >= 2 && sizes[0] <= 16 && sizes[1] == 4;
}

static int32_t run(Tensor x, Tensor* y) {
  const char* checks = getenv("AOTI_RUNTIME_CHECK_INPUTS");
  if (checks != NULL && strcmp(checks, "1") == 0 && !takes(x)) {
    fprintf(stderr, "Error: input_handles[0]: unmatched\n");
    return 1;
  }
  int64_t* sizes = NULL;
  float *from = NULL, *to = NULL;
  aoti_torch_get_sizes(x, &sizes);
  const int64_t shape[] = {sizes[0], 4}, strides[] = {4, 1};
  aoti_torch_empty_strided(2, shape, strides, 6, 0, 0, y);
  aoti_torch_get_data_ptr(x, (void**)&from);
  aoti_torch_get_data_ptr(*y, (void**)&to);
  if (WRONG == DIES_IN_RUN) {
    to = (float*)8;
  }
  for (int64_t i = 0; i < shape[0] * 4; ++i) {
    to[i] = 2 * from[i];
  }
  return 0;
}

#if WRONG != IS_NO_MODEL
int32_t AOTInductorModelContainerRun(
    void* model, Tensor* inputs, size_t input_count, Tensor* outputs, size_t output_count, void* stream, void* proxy) {
  int32_t status = WRONG == FAILS ? 1 : run(inputs[0], &outputs[0]);
  aoti_torch_delete_tensor_object(inputs[0]);
  inputs[0] = NULL;  // The caller frees what is not taken.
  return status;
}
#endif
