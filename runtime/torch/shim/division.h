// Division of integers in a model's code.
#pragma once

namespace weir {

// Has the interpreter's operators on integers raise where there is no quotient. To be called before the first model
// is read: graphs keep pointers to operators.
void check_divisions();

} // namespace weir
