// Settings and libraries of the whole process.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <cstdlib>

#include "error.h"

WeirStatus weir_set_intra_op_threads(int32_t count, char** error) {
  return weir::guarded(error, [&] { at::set_num_threads(count); });
}

WeirStatus weir_set_inter_op_threads(int32_t count, char** error) {
  return weir::guarded(error, [&] { at::set_num_interop_threads(count); });
}

void weir_set_jit_executor(int32_t enabled) {
  torch::jit::getExecutorMode() = enabled != 0;
}

void weir_set_jit_profiling(int32_t enabled) {
  torch::jit::getProfilingMode() = enabled != 0;
}

void weir_set_tensor_fuser(int32_t enabled) {
  torch::jit::setTensorExprFuserEnabled(enabled != 0);
}

void weir_set_cudnn(int32_t enabled) {
  at::globalContext().setUserEnabledCuDNN(enabled != 0);
}

char* weir_open_library(const char* name) {
  if (::dlopen(name, RTLD_NOW | RTLD_GLOBAL) != nullptr) {
    return nullptr;
  }
  const char* message = ::dlerror();
  return weir::text(message == nullptr ? "the loader gave no reason" : message);
}

void weir_text_free(char* text) {
  std::free(text);
}
