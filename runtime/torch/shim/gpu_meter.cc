// State of NVIDIA GPUs, from the driver's management library (NVML), which is opened if it is installed. The functions
// and structs used here are stable in both libraries, so their headers are not needed to build.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "weir_torch.h"

namespace {

struct CudaUuid {
  unsigned char bytes[16];
};

struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct NvmlUtilization {
  unsigned int gpu;  // percent of the time
  unsigned int memory;
};

using NvmlDevice = void*;

// Finds a function of a library. The result is null if the library is not open or has no such function.
template <typename Function>
void find(Function*& function, void* library, const char* name) {
  function = library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
}

// Calls a function if it was found. Both libraries return 0 for success.
template <typename... Parameters, typename... Arguments>
bool succeeds(int (*function)(Parameters...), Arguments... arguments) {
  return function != nullptr && function(arguments...) == 0;
}

struct Driver {
  int (*device)(int*, int);
  int (*uuid)(CudaUuid*, int);
  int (*handle)(const char*, NvmlDevice*);
  int (*utilization)(NvmlDevice, NvmlUtilization*);
  int (*memory)(NvmlDevice, NvmlMemory*);
  int (*power)(NvmlDevice, unsigned int*);
  int (*power_limit)(NvmlDevice, unsigned int*);
  int (*energy)(NvmlDevice, unsigned long long*);
  bool usable;

  Driver() {
    void* cuda = ::dlopen("libcuda.so.1", RTLD_NOW);
    void* nvml = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init_cuda)(unsigned int);
    int (*init_nvml)();
    find(init_cuda, cuda, "cuInit");
    find(device, cuda, "cuDeviceGet");
    find(uuid, cuda, "cuDeviceGetUuid");
    find(init_nvml, nvml, "nvmlInit_v2");
    find(handle, nvml, "nvmlDeviceGetHandleByUUID");
    find(utilization, nvml, "nvmlDeviceGetUtilizationRates");
    find(memory, nvml, "nvmlDeviceGetMemoryInfo");
    find(power, nvml, "nvmlDeviceGetPowerUsage");
    find(power_limit, nvml, "nvmlDeviceGetEnforcedPowerLimit");
    find(energy, nvml, "nvmlDeviceGetTotalEnergyConsumption");
    usable = succeeds(init_cuda, 0U) && succeeds(init_nvml);
  }
};

// Writes the UUID in the form GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, like NVML and nvidia-smi.
void write(const CudaUuid& uuid, char* text, size_t size) {
  size_t length = static_cast<size_t>(std::snprintf(text, size, "GPU"));
  for (int i = 0; i < 16; i++) {
    bool is_first = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    length += static_cast<size_t>(
        std::snprintf(text + length, size - length, is_first ? "-%02x" : "%02x", uuid.bytes[i]));
  }
}

} // namespace

int32_t weir_gpu_read(int32_t index, WeirGpu* gpu) {
  static const Driver driver;
  // CUDA and NVML number devices differently, because NVML also lists devices that are hidden from this process.
  int device = 0;
  CudaUuid uuid{};
  if (!driver.usable || !succeeds(driver.device, &device, index) || !succeeds(driver.uuid, &uuid, device)) {
    return 0;
  }
  *gpu = WeirGpu{{}, -1, -1, -1, -1, -1, -1};
  write(uuid, gpu->uuid, sizeof gpu->uuid);
  NvmlDevice handle = nullptr;
  if (!succeeds(driver.handle, static_cast<const char*>(gpu->uuid), &handle)) {
    return 0;
  }
  NvmlUtilization utilization{};
  if (succeeds(driver.utilization, handle, &utilization)) {
    gpu->utilization = utilization.gpu / 100.0;
  }
  NvmlMemory memory{};
  if (succeeds(driver.memory, handle, &memory)) {
    gpu->memory_total = static_cast<double>(memory.total);
    gpu->memory_used = static_cast<double>(memory.used);
  }
  unsigned int milliwatts = 0;
  if (succeeds(driver.power, handle, &milliwatts)) {
    gpu->power = milliwatts / 1000.0;
  }
  if (succeeds(driver.power_limit, handle, &milliwatts)) {
    gpu->power_limit = milliwatts / 1000.0;
  }
  unsigned long long millijoules = 0;
  if (succeeds(driver.energy, handle, &millijoules)) {
    gpu->energy = static_cast<double>(millijoules) / 1000.0;
  }
  return 1;
}
