// Execution of exported programs: a list of calls of registered operators, with the conventions of weir_torch.h.
#pragma once

#include "weir_torch.h"

extern "C" {

struct WeirExported;

// A program in the form that `runtime/torch/src/module/exported/code.rs` writes: numbers, of which some are indices of
// texts.
struct WeirExportedCode {
  const int64_t* numbers;
  size_t count;
  const char* const* texts;
  size_t text_count;
};

// Loads a program onto a device. `payloads` are the entries of the archive as tensors of one dimension in host memory;
// weights are views of them, or copies on a GPU.
WeirStatus weir_exported_load(
    WeirExportedCode code,
    const at::Tensor* const* payloads,
    size_t payload_count,
    int32_t device,
    WeirExported** exported,
    char** error);
// Makes the program's calls on constants, before the first run. Weights that no run uses are freed, so nothing else
// should hold the payloads then.
WeirStatus weir_exported_prepare(WeirExported* exported, char** error);
void weir_exported_free(WeirExported* exported);
// Returns the bytes of the constants after the preparation, and of those on a GPU.
uint64_t weir_exported_bytes(const WeirExported* exported);
uint64_t weir_exported_device_bytes(const WeirExported* exported);

// Runs the program. Safe to call from several threads at once. `values` has a tensor per input. Outputs do not share
// memory with weights.
WeirStatus weir_exported_run(
    const WeirExported* exported,
    const WeirValue* values,
    size_t count,
    WeirRun options,
    WeirAnswer** answer,
    char** error);
}
