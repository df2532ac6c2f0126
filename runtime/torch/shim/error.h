// Converts libtorch's exceptions to a status and a text.
#pragma once

#include <c10/util/Exception.h>

#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "weir_torch.h"

namespace weir {

inline char* text(const char* what) {
  return ::strdup(what);
}

// Runs `body` and converts any exception to a status.
template <typename Body>
WeirStatus guarded(char** error, Body&& body) noexcept {
  try {
    body();
    return WEIR_OK;
  } catch (const c10::OutOfMemoryError& thrown) {
    *error = text(thrown.what_without_backtrace());
    return WEIR_OUT_OF_MEMORY;
  } catch (const c10::Error& thrown) {
    *error = text(thrown.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    *error = text("std::bad_alloc");
    return WEIR_OUT_OF_MEMORY;
  } catch (const std::exception& thrown) {
    *error = text(thrown.what());
  } catch (...) {
    *error = text("an exception other than a std::exception");
  }
  return WEIR_FAILED;
}

// Runs `body` and discards any exception.
template <typename Body>
void quietly(Body&& body) noexcept {
  try {
    body();
  } catch (...) {
  }
}

} // namespace weir
