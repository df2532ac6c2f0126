// What the shim's files share of streams.
#pragma once

#include <c10/core/Stream.h>

#include "weir_torch.h"

struct WeirStream {
  c10::Stream stream;
};
