// Some of libtorch's kernels trust sizes and positions, and access memory out of bounds if these are wrong. If PyTorch
// checks them at all, it does so in Python modules, which a trace leaves out. A traced LSTM whose state has the rows of
// another batch ends the process, and one whose input is too wide returns the memory behind its weights.
// docs/security.md lists the operators; tests/sweep found them.
#include "operands.h"

#include <ATen/Context.h>

#include <mutex>

namespace weir {

void check_operands() {
  static std::once_flag once;
  std::call_once(once, [] {
    // libtorch's own checks of sparse tensors are off by default. Without them, an invalid index writes out of bounds.
    at::globalContext().setCheckSparseTensorInvariants(true);
    check_recurrence();
    check_indices();
    check_sparse();
    check_factorizations();
    check_layers();
    check_numbers();
    check_quantized();
    check_texts();
  });
}

} // namespace weir
