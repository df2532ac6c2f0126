// The stream type shared by the shim's files.
#pragma once

#include <c10/core/Stream.h>

#include "weir_torch.h"

struct WeirStream {
  c10::Stream stream;
};
