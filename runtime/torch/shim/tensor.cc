#include <ATen/ATen.h>

#include "error.h"

namespace {

at::IntArrayRef sizes(const WeirShape& shape) {
  return {shape.sizes, shape.rank};
}

at::TensorOptions options(const WeirShape& shape) {
  return at::TensorOptions().dtype(static_cast<at::ScalarType>(shape.element_type));
}

} // namespace

WeirStatus weir_tensor_empty(WeirShape shape, at::Tensor** tensor, char** error) {
  return weir::guarded(error, [&] { *tensor = new at::Tensor(at::empty(sizes(shape), options(shape))); });
}

WeirStatus weir_tensor_borrow(
    const void* data,
    WeirShape shape,
    void* owner,
    void (*release)(void*),
    at::Tensor** tensor,
    char** error) {
  return weir::guarded(error, [&] {
    auto free = [owner, release](void*) { release(owner); };
    // The caller guarantees that nothing writes to this tensor.
    *tensor = new at::Tensor(
        at::from_blob(const_cast<void*>(data), sizes(shape), std::move(free), options(shape)));
  });
}

WeirView weir_tensor_view(const at::Tensor* tensor) {
  WeirView view{{nullptr, 0, -1}, nullptr, 0, 0};
  weir::quietly([&] {
    auto sizes = tensor->sizes();
    auto type = static_cast<int32_t>(tensor->scalar_type());
    view = {{sizes.data(), sizes.size(), type}, tensor->data_ptr(), tensor->nbytes(), tensor->is_cpu()};
  });
  return view;
}

void weir_tensor_free(at::Tensor* tensor) {
  delete tensor;
}
