// Some kernels of libtorch take sizes and positions on trust, and read or write beside their memory where those are wrong.
// Where PyTorch checks them at all it does so in its Python modules, which a trace leaves out: a traced LSTM whose state has
// rows of another batch ends the process, and one whose input is too wide answers with what lies behind its weights.
// docs/security.md lists the operators; tests/sweep found them.
#include "operands.h"

#include <ATen/Context.h>

#include <mutex>

namespace weir {

void check_operands() {
  static std::once_flag once;
  std::call_once(once, [] {
    // libtorch's own checks of sparse tensors, which are off by default: an index beside the tensor is written there.
    at::globalContext().setCheckSparseTensorInvariants(true);
    check_recurrence();
    check_indices();
    check_sparse();
    check_factorizations();
    check_layers();
    check_numbers();
    check_texts();
  });
}

} // namespace weir
