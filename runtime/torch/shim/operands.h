// Operands that libtorch's kernels trust.
#pragma once

namespace weir {

// Has operators raise for operands with which their kernels would read or write beside their memory. To be called before
// the first model is read: graphs keep pointers to operators.
void check_operands();

} // namespace weir
