#pragma once

namespace weir {

// Registers `weir::choose`, which returns the result of the branch of `torch.cond` that has run.
void register_choice();

} // namespace weir
