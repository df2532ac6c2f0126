// Operands that libtorch's operators trust.
#pragma once

namespace weir {

// Has operators raise for operands with which they would read or write beside their memory, end the process or never end.
// To be called before the first model is read: graphs keep pointers to operators.
void check_operands();

// The operators of one kind each, for `check_operands`.
void check_recurrence();
void check_indices();
void check_sparse();
void check_factorizations();
void check_layers();
void check_numbers();
void check_texts();

} // namespace weir
