#include "graph.h"

#include <dlfcn.h>

#include <stdexcept>

#include "error.h"

namespace {

[[noreturn]] void refuse() {
  const char* message = ::dlerror();
  throw std::runtime_error(message == nullptr ? "the loader gave no reason" : message);
}

} // namespace

WeirStatus weir_graph_open(const char* path, const WeirGraphFunctions** functions, char** error) {
  return weir::guarded(error, [&] {
    void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      refuse();
    }
    auto* find = reinterpret_cast<const WeirGraphFunctions* (*)()>(::dlsym(library, "weir_graph_functions"));
    if (find == nullptr) {
      refuse();
    }
    *functions = find();
  });
}
