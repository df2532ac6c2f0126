// Counts the memory that a thread allocates on one device while a `Metered` object exists.
#pragma once

#include <torch/csrc/profiler/orchestration/observer.h>

#include <atomic>
#include <memory>
#include <utility>

namespace weir {

// libtorch's allocators report each block that they allocate or free to the profiler of the thread, and of the threads
// that the thread forks work to. Meter is a profiler with everything but these reports turned off. It derives from
// ProfilerStateBase because libtorch casts the current profiler to that type.
class Meter final : public torch::profiler::impl::ProfilerStateBase {
 public:
  explicit Meter(c10::Device device) : ProfilerStateBase(config()), device_(device) {}

  // The allocator holds its lock during the report, so this function must not allocate, lock or throw.
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (device != device_) {
      return;
    }
    int64_t now = current_.fetch_add(bytes) + bytes;
    int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }

  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }

  // Bytes allocated and not freed since the meter was created.
  uint64_t current() const {
    return current_.load() < 0 ? 0 : static_cast<uint64_t>(current_.load());
  }

  // Largest number of bytes allocated at once.
  uint64_t peak() const {
    return static_cast<uint64_t>(peak_.load());
  }

 private:
  static torch::profiler::impl::ProfilerConfig config() {
    torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::Disabled);
    config.profile_memory = true;
    return config;
  }

  c10::Device device_;
  std::atomic<int64_t> current_{0};
  std::atomic<int64_t> peak_{0};
};

// Meters the calling thread for the lifetime of this object.
class Metered {
 public:
  explicit Metered(c10::Device device)
      : meter_(std::make_shared<Meter>(device)),
        guard_(c10::DebugInfoKind::PROFILER_STATE, meter_) {}

  const Meter& meter() const {
    return *meter_;
  }

 private:
  std::shared_ptr<Meter> meter_;
  c10::DebugInfoGuard guard_;
};

} // namespace weir
