// Checks of operands that libtorch's operators trust.
#pragma once

namespace weir {

// Makes operators raise an exception for operands with which they would access memory out of bounds, end the process or
// run forever. Must be called before the first model is loaded, because graphs keep pointers to operators.
void check_operands();

// Groups of operators, which `check_operands` calls.
void check_recurrence();
void check_indices();
void check_sparse();
void check_factorizations();
void check_layers();
void check_numbers();
void check_quantized();
void check_texts();

} // namespace weir
