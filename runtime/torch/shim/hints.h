#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <vector>

namespace weir {

// The meaning of a hint, by which an operation limits the shape of an argument of `forward` that reaches it. The
// numbers are repeated in `hints.rs`.
enum HintKind : int32_t {
  LAST = 0,         // the last dimensions are `sizes`: linear layers, products, layer norms
  CHANNELS = 1,     // channels `sizes[0]`, then `sizes[1]` spatial dimensions: convolutions
  IDS = 2,          // integers below `sizes[0]`: embeddings
  STEPS = 3,        // a sequence of `sizes[0]` features: recurrent layers
  CHANNELS_ANY = 4, // the second dimension is `sizes[0]`, with any rank: batch norms
  BROADCAST = 5,    // meets a weight of `sizes`, elementwise
  VIEW = 6,         // is viewed as `sizes`, -1 where that is not known
  INDEX = 7,        // integers, used as index
  CONDITION = 8,    // booleans
  CONVERTED = 9,    // the argument's element type is converted
  OF_BYTES = 10,    // divided by 255, as bytes of images are
  JOINED = 11,      // like LAST, for this argument concatenated with others
};

struct Hint {
  size_t argument;      // index, without self
  HintKind kind;
  std::vector<int64_t> sizes;
  int32_t element_type; // of the weight; -1 if there is none
  bool converted;       // the argument's element type is converted first
};

// Follows each argument through the graph of `forward` to the first operations with weights, and returns their hints in
// order.
std::vector<Hint> hints_of(const torch::jit::Module& module, const torch::jit::Method& method);

} // namespace weir
