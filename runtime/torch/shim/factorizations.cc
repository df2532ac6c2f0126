// Checks for LAPACK routines, which trust their pivots and may access memory out of bounds if an element is NaN.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>

#include "checked_operator.h"
#include "operands.h"

namespace weir {
namespace {

using c10::FunctionSchema;
using torch::jit::Stack;

void check_finite(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  const auto& matrix = operands["self"].toTensor();
  TORCH_CHECK(
      !matrix.is_cpu() || matrix.isfinite().all().item<bool>(),
      "torch.linalg.eigvals: input should not contain infs or NaNs");
}

// Checks that there is one pivot per row of each matrix in the batch.
void check_pivots(const at::Tensor& pivots, const at::Tensor& matrix, int64_t count) {
  TORCH_CHECK(
      matrix.dim() >= 2 && pivots.dim() == matrix.dim() - 1 && pivots.size(-1) == count &&
          pivots.sizes().slice(0, pivots.dim() - 1) == matrix.sizes().slice(0, matrix.dim() - 2),
      "pivots of shape ", pivots.sizes(), " do not fit a factorization of shape ", matrix.sizes());
}

void check_lu(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto matrix = operands.tensor("LU_data");
  TORCH_CHECK(matrix.dim() >= 2, "lu_unpack: Expected a matrix");
  check_pivots(operands.tensor("LU_pivots"), matrix, std::min(matrix.size(-1), matrix.size(-2)));
}

// Checks pivots of the Bunch-Kaufman factorisation: a positive pivot is a row and column counted from 1; a block of two
// rows has two negative pivots in succession.
void check_ldl(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto matrix = operands.tensor("LD"), pivots = operands.tensor("pivots");
  TORCH_CHECK(matrix.dim() >= 2, "linalg.ldl_solve: Expected a matrix");
  auto count = matrix.size(-1);
  check_pivots(pivots, matrix, count);
  if (!pivots.is_cpu() || count == 0) {
    return;
  }
  auto rows = pivots.to(at::kLong).reshape({-1, count}).contiguous();
  const auto* all = rows.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < rows.size(0); ++row, all += count) {
    for (int64_t i = 0; i < count; ++i) {
      bool block = all[i] < 0;
      bool in_range = all[i] != 0 && std::abs(all[i]) <= count;
      bool fits = !block || (i + 1 < count && all[i + 1] < 0 && std::abs(all[i + 1]) <= count);
      TORCH_CHECK(in_range && fits, "linalg.ldl_solve: pivots of ldl_factor have no ", all[i], " at ", i);
      i += block ? 1 : 0;
    }
  }
}

void check_least_squares(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  const auto& driver = operands["driver"];
  bool trusts = driver.isString() && driver.toStringRef() == "gelss";
  TORCH_CHECK(
      !trusts || operands.tensor("b").numel() > 0, "torch.linalg.lstsq: the driver gelss needs a right-hand side");
}

const CheckedOperator CHECKED[] = {
    {"aten::linalg_eigvals", check_finite, is_kernel},
    {"aten::lu_unpack", check_lu, is_kernel},
    {"aten::linalg_ldl_solve", check_ldl, is_kernel},
    {"aten::linalg_lstsq", check_least_squares, is_kernel},
};

} // namespace

void check_factorizations() {
  check_all(CHECKED);
}

} // namespace weir
