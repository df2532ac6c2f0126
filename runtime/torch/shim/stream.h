// The stream type that the shim's files share.
#pragma once

#include <c10/core/Stream.h>

#include "weir_torch.h"

struct WeirStream {
  c10::Stream stream;
};
