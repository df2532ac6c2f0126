// Measures libtorch without a server: one forward call after the other on one thread. No server that runs the same
// batches on this core can be faster.
//
//     raw_loop SECONDS MODEL.pt BATCH NAME:TYPE:DIMS=FILE...
//
// Each FILE contains one row of an input, which is repeated BATCH times. Prints a line of JSON.

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/freeze_module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// Number of runs before the measurement, because libtorch specialises and plans during the first few.
constexpr int kWarmUp = 8;

double wall() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double cpu() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

at::ScalarType scalar(const std::string& name) {
  if (name == "FP32") return at::kFloat;
  if (name == "INT64") return at::kLong;
  throw std::runtime_error("type " + name + " is not supported");
}

// Parses NAME:TYPE:DIMS=FILE, in which DIMS has the form 3,224,224.
at::Tensor input(const std::string& argument, int64_t batch) {
  const size_t type = argument.find(':') + 1, dims = argument.find(':', type) + 1, file = argument.find('=') + 1;
  std::vector<int64_t> shape{1};
  std::stringstream list(argument.substr(dims, file - 1 - dims));
  for (std::string dim; std::getline(list, dim, ',');) shape.push_back(std::stoll(dim));
  std::ifstream stream(argument.substr(file), std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  const auto options = at::TensorOptions().dtype(scalar(argument.substr(type, dims - 1 - type)));
  const at::Tensor row = at::from_blob(bytes.data(), shape, options);
  if (bytes.size() != row.nbytes()) throw std::runtime_error("not one row: " + argument);
  std::vector<int64_t> repeats(shape.size(), 1);
  repeats[0] = batch;
  return row.repeat(repeats).contiguous();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5) throw std::runtime_error("raw_loop SECONDS MODEL.pt BATCH NAME:TYPE:DIMS=FILE...");
  const double seconds = std::atof(argv[1]);
  const int64_t batch = std::atoll(argv[3]);
  at::set_num_threads(1);
  c10::InferenceMode guard;
  auto module = torch::jit::load(argv[2]);
  module.eval();
  module = torch::jit::freeze_module(module);
  std::vector<torch::jit::IValue> inputs;
  for (int i = 4; i < argc; i++) inputs.emplace_back(input(argv[i], batch));
  for (int i = 0; i < kWarmUp; i++) module.forward(inputs);
  const double start = wall(), cpu_start = cpu();
  long runs = 0;
  while (wall() - start < seconds) {
    module.forward(inputs);
    runs++;
  }
  const double elapsed = wall() - start, samples = double(runs) * batch;
  std::printf(
      "{\"batch\": %lld, \"samples_per_s\": %.1f, \"ms_per_batch\": %.4f, \"cpu_us_per_sample\": %.3f}\n",
      (long long)batch, samples / elapsed, elapsed / runs * 1e3, (cpu() - cpu_start) / samples * 1e6);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "raw_loop: %s\n", error.what());
  return 1;
}
