// Checks of sparse tensors and views, in addition to the optional checks of libtorch.
#include <ATen/ATen.h>

#include <cstdint>

#include "checked_operator.h"
#include "operands.h"

namespace weir {
namespace {

using c10::FunctionSchema;
using torch::jit::Stack;

// Checks the operands of the constructor that omits libtorch's checks.
void check_coordinates(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  at::_validate_sparse_coo_tensor_args(
      operands["indices"].toTensor(), operands["values"].toTensor(), operands["size"].toIntVector());
}

// Checks that blocks of values are not empty, because the number of rows is divided by their size.
void check_blocks(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto values = operands.tensor("values");
  auto compressed = operands.tensor(operands.has("crow_indices") ? "crow_indices"
          : operands.has("ccol_indices")                         ? "ccol_indices"
                                                                 : "compressed_indices");
  TORCH_CHECK(values.defined() && compressed.defined(), schema.name(), ": values and indices should be tensors");
  for (int64_t i = compressed.dim(); i < values.dim(); ++i) {
    TORCH_CHECK(values.size(i) > 0, schema.name(), ": a block of shape ", values.sizes(), " is empty");
  }
}

// Checks the compressed rows of a matrix: the position of the first value of each row, in ascending order.
void check_compressed(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto rows = operands.tensor("crow_indices"), columns = operands.tensor("col_indices");
  if (!rows.is_cpu() || rows.dim() == 0 || rows.size(-1) == 0) {
    return;
  }
  auto count = columns.dim() == 0 ? 0 : columns.size(-1);
  TORCH_CHECK(
      rows.select(-1, 0).eq(0).all().item<bool>() && rows.select(-1, -1).eq(count).all().item<bool>() &&
          (rows.size(-1) < 2 || rows.diff().ge(0).all().item<bool>()),
      schema.name(), ": crow_indices should ascend from 0 to ", count);
}

// Checks the rows of coordinates, which must be in ascending order.
void check_rows(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto rows = operands.tensor("self");
  if (!rows.is_cpu() || rows.numel() == 0) {
    return;
  }
  auto size = operands["size"].toInt();
  TORCH_CHECK(
      rows.ge(0).all().item<bool>() && rows.lt(size).all().item<bool>() &&
          (rows.size(-1) < 2 || rows.diff().ge(0).all().item<bool>()),
      schema.name(), ": rows should ascend from 0 to less than ", size);
}

// Checks the shape of a matrix that is built from diagonals.
void check_diagonals(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  for (auto size : operands["shape"].toIntVector()) {
    TORCH_CHECK(size >= 0, schema.name(), ": a matrix has no size ", size);
  }
}

// Checks a view into the memory of another tensor: `as_strided` fails if that memory is too short.
void check_view(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  auto whole = operands.tensor("self");
  at::as_strided(whole, operands["size"].toIntVector(), operands["stride"].toIntVector(), whole.storage_offset());
}

const CheckedOperator CHECKED[] = {
    {"aten::_spdiags", check_diagonals, is_kernel},
    {"aten::_reshape_alias", check_view, is_kernel},
    {"aten::_sparse_coo_tensor_unsafe", check_coordinates, is_kernel},
    {"aten::sparse_bsr_tensor", check_blocks, is_kernel},
    {"aten::sparse_bsc_tensor", check_blocks, is_kernel},
    {"aten::sparse_compressed_tensor", check_blocks, is_kernel},
    {"aten::_sparse_bsr_tensor_unsafe", check_blocks, is_kernel},
    {"aten::_sparse_bsc_tensor_unsafe", check_blocks, is_kernel},
    {"aten::_sparse_compressed_tensor_unsafe", check_blocks, is_kernel},
    {"aten::_convert_indices_from_csr_to_coo", check_compressed, is_kernel},
    {"aten::_convert_indices_from_coo_to_csr", check_rows, is_kernel},
};

} // namespace

void check_sparse() {
  check_all(CHECKED);
}

} // namespace weir
