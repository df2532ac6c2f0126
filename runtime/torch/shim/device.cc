// Streams, events and copies of CUDA devices, through the accelerator interfaces of libtorch_cpu and libc10.
// libtorch_cuda registers its implementations when it is opened. Without it, each of these functions fails with
// libtorch's own message.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "error.h"
#include "stream.h"

// The event has timing enabled, so that the device's own clock measures the model.
struct WeirEvent {
  c10::Event event{at::kCUDA, c10::EventFlag::BACKEND_DEFAULT};
};

WeirStatus weir_cuda_devices(int32_t* count, char** error) {
  return weir::guarded(error, [&] { *count = at::detail::getCUDAHooks().deviceCount(); });
}

WeirStatus weir_cuda_empty_cache(char** error) {
  return weir::guarded(error, [] {
    at::getDeviceAllocator(at::kCUDA)->emptyCache();
    at::getHostAllocator(at::kCUDA)->empty_cache();
  });
}

WeirStatus weir_cuda_synchronize(int32_t device, char** error) {
  return weir::guarded(error, [&] { at::accelerator::synchronizeDevice(static_cast<c10::DeviceIndex>(device)); });
}

WeirStatus weir_cuda_memory(int32_t device, uint64_t* reserved, uint64_t* allocated, char** error) {
  return weir::guarded(error, [&] {
    auto stats = at::getDeviceAllocator(at::kCUDA)->getDeviceStats(static_cast<c10::DeviceIndex>(device));
    auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    *reserved = static_cast<uint64_t>(stats.reserved_bytes[all].current);
    *allocated = static_cast<uint64_t>(stats.allocated_bytes[all].current);
  });
}

WeirStatus weir_stream_new(int32_t device, WeirStream** stream, char** error) {
  return weir::guarded(error, [&] {
    at::globalContext().lazyInitDevice(at::kCUDA);
    at::Device on(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    *stream = new WeirStream{c10::impl::VirtualGuardImpl(at::kCUDA).getStreamFromGlobalPool(on)};
  });
}

int64_t weir_stream_number(const WeirStream* stream) {
  return stream->stream.id();
}

WeirStatus weir_stream_wait(const WeirStream* stream, const WeirEvent* event, char** error) {
  return weir::guarded(error, [&] { event->event.block(stream->stream); });
}

WeirStatus weir_stream_synchronize(const WeirStream* stream, char** error) {
  return weir::guarded(error, [&] { stream->stream.synchronize(); });
}

void weir_stream_free(WeirStream* stream) {
  delete stream;
}

WeirStatus weir_stream_record(const WeirStream* stream, WeirEvent** event, char** error) {
  return weir::guarded(error, [&] {
    auto recorded = std::make_unique<WeirEvent>();
    recorded->event.record(stream->stream);
    *event = recorded.release();
  });
}

WeirStatus weir_event_synchronize(const WeirEvent* event, char** error) {
  return weir::guarded(error, [&] { event->event.synchronize(); });
}

WeirStatus weir_event_elapsed(const WeirEvent* from, const WeirEvent* to, double* milliseconds, char** error) {
  return weir::guarded(error, [&] { *milliseconds = from->event.elapsedTime(to->event); });
}

void weir_event_free(WeirEvent* event) {
  delete event;
}

WeirStatus weir_tensor_pinned(WeirShape shape, at::Tensor** tensor, char** error) {
  return weir::guarded(error, [&] {
    auto type = static_cast<at::ScalarType>(shape.element_type);
    auto options = at::TensorOptions().dtype(type).pinned_memory(true);
    *tensor = new at::Tensor(at::empty({shape.sizes, shape.rank}, options));
  });
}

WeirStatus weir_tensor_upload(
    const at::Tensor* pinned,
    const WeirStream* on,
    const WeirStream* reader,
    at::Tensor** copy,
    char** error) {
  return weir::guarded(error, [&] {
    c10::StreamGuard guard(on->stream);
    auto options = pinned->options().device(on->stream.device()).pinned_memory(false);
    auto made = at::empty(pinned->sizes(), options);
    made.copy_(*pinned, /*non_blocking=*/true);
    // The block belongs to the stream that it was allocated on, which may reuse it as soon as it is freed. This call
    // delays the reuse until the reader is done with the block.
    made.record_stream(reader->stream);
    *copy = new at::Tensor(std::move(made));
  });
}

WeirStatus weir_tensor_download(const at::Tensor* tensor, const WeirStream* on, at::Tensor** copy, char** error) {
  return weir::guarded(error, [&] {
    c10::StreamGuard guard(on->stream);
    auto options = tensor->options().device(at::kCPU).pinned_memory(true);
    auto made = at::empty(tensor->sizes(), options);
    made.copy_(*tensor, /*non_blocking=*/true);
    *copy = new at::Tensor(std::move(made));
  });
}

WeirStatus weir_tensor_copy_rows(const at::Tensor* from, const at::Tensor* to, const WeirStream* on, char** error) {
  return weir::guarded(error, [&] {
    c10::StreamGuard guard(on->stream);
    at::NoGradGuard no_gradients;
    auto target = from->dim() > 0 && to->dim() > 0 ? to->narrow(0, 0, from->size(0)) : *to;
    TORCH_CHECK(
        target.sizes() == from->sizes() && target.scalar_type() == from->scalar_type(),
        "an input differs from the one that the graph was captured with");
    target.copy_(*from, /*non_blocking=*/true);
  });
}

WeirStatus weir_tensor_first_rows(const at::Tensor* tensor, int64_t rows, at::Tensor** first, char** error) {
  return weir::guarded(error, [&] { *first = new at::Tensor(rows < 0 ? *tensor : tensor->narrow(0, 0, rows)); });
}
