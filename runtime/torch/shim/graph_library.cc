// The library of CUDA graphs. Its undefined symbols are in libtorch_cuda and the libraries that libtorch_cuda needs, all of
// which are open with global symbols before this one.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/StreamGuard.h>
#include <torch/headeronly/version.h>

#include <memory>
#include <optional>

#include "error.h"
#include "graph.h"
#include "stream.h"

namespace {

// A graph whose failed capture is undone. libtorch_cuda 2.15 has no implementation of `at::accelerator::Graph`, so the
// class of CUDA is used with every release.
class Graph : public at::cuda::CUDAGraph {
 public:
  void begin(c10::MempoolId_t pool) {
    try {
      capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    } catch (...) {
      abandon();
      throw;
    }
  }

  void end() {
    try {
      capture_end();
      forget_generators();
    } catch (...) {
      abandon();
      throw;
    }
  }

 private:
  // A graph that draws random numbers would draw the same ones in every run.
  void forget_generators() {
    for (auto& [state, increment] : captured_generator_states_) {
      TORCH_CHECK(increment == 0, "it draws random numbers");
    }
    leave_generators();
  }

  void abandon() noexcept {
    weir::quietly([&] { end_stream(); });
    release();
  }

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 12
  // A generator of 2.11 keeps an unlocked list of its graphs, which `capture_begin` adds to and the destructor removes
  // from. So a model that is unloaded would change it while another one is captured. A graph that draws no random numbers
  // needs no generator, so it leaves the list here, under the lock of captures.
  void leave_generators() {
    for (auto& [state, increment] : captured_generator_states_) {
      state->registered_graphs_.erase(this);
    }
    captured_generator_states_.clear();
  }

  // libtorch 2.11 ends nothing if a capture fails: the allocators would keep taking memory from the graph's pool, and
  // refuse to empty their caches; the generator of random numbers would refuse to run outside of a capture. All of it is
  // ended here, in the order in which `capture_begin` began it.
  void release() noexcept {
    for (auto& [state, increment] : captured_generator_states_) {
      state->capturing_ = false;
    }
    // The base class releases the pool itself once its capture has ended. Without a pool, no allocation was begun.
    if (capture_ended_ || mempool_id_ == c10::MempoolId_t{0, 0}) {
      return;
    }
    auto* device = c10::cuda::CUDACachingAllocator::get();
    auto* host = at::getHostAllocator(at::kCUDA);
    weir::quietly([&] { device->endAllocateToPool(capture_dev_, mempool_id_); });
    weir::quietly([&] { device->releasePool(capture_dev_, mempool_id_); });
    weir::quietly([&] { host->end_allocate_to_pool(mempool_id_); });
    weir::quietly([&] { host->release_pool(mempool_id_); });
  }
#else
  // From 2.15 on, generators keep no list of graphs, but a state of each capture, under a lock of their own.
  void leave_generators() {}

  // From 2.15 on, libtorch ends the rest of a failed capture when the graph is reset.
  void release() noexcept {
    weir::quietly([&] { reset(); });
  }
#endif

  // Ends the stream's capture if it is still open, and discards the error that CUDA keeps for this thread.
  void end_stream() {
    auto status = cudaStreamCaptureStatusNone;
    auto stream = capture_stream_.stream();
    if (cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone) {
      cudaGraph_t graph = nullptr;
      if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph != nullptr) {
        cudaGraphDestroy(graph);
      }
    }
    cudaGetLastError();
  }
};

} // namespace

struct WeirGraph {
  Graph graph;
};

namespace {

WeirStatus begin(const WeirStream* stream, const WeirGraph* like, WeirGraph** graph, char** error) {
  return weir::guarded(error, [&] {
    c10::StreamGuard guard(stream->stream);
    c10::MempoolId_t pool{0, 0};
    if (like != nullptr) {
      pool = const_cast<WeirGraph*>(like)->graph.pool();
    }
    auto made = std::make_unique<WeirGraph>();
    made->graph.begin(pool);
    *graph = made.release();
  });
}

WeirStatus end(WeirGraph* graph, const WeirStream* stream, char** error) {
  return weir::guarded(error, [&] {
    c10::StreamGuard guard(stream->stream);
    graph->graph.end();
  });
}

WeirStatus replay(WeirGraph* graph, const WeirStream* stream, char** error) {
  return weir::guarded(error, [&] {
    c10::StreamGuard guard(stream->stream);
    graph->graph.replay();
  });
}

// Frees a graph. A graph that cannot be reset is leaked, because its destructor would end the process.
void free_graph(WeirGraph* graph) {
  weir::quietly([&] {
    graph->graph.reset();
    delete graph;
  });
}

constexpr WeirGraphFunctions FUNCTIONS{begin, end, replay, free_graph};

} // namespace

extern "C" __attribute__((visibility("default"))) const WeirGraphFunctions* weir_graph_functions() {
  return &FUNCTIONS;
}
