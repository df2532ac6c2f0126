// Checks for the division of integers in a model's code.
#pragma once

namespace weir {

// Makes the interpreter's integer operators raise an exception if there is no valid quotient. Must be called before the
// first model is loaded, because graphs keep pointers to operators.
void check_divisions();

} // namespace weir
