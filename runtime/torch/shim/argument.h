// The arguments of a method, and their values from requests.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "weir_torch.h"

namespace weir {

// Returns the kind of value that an argument of the type takes. For an optional type, this is the kind of its element
// type.
WeirKind kind_of(const c10::TypePtr& type);

c10::IValue value_of(const WeirValue& value, WeirKind kind);

} // namespace weir
