// torchvision's operators that its detection models call.
#pragma once

namespace weir {

// Registers torchvision's `nms` and `roi_align`, unless a library has registered them.
void register_vision_operators();

} // namespace weir
