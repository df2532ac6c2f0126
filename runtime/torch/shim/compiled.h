// Execution of AOTInductor's compiled code, with the conventions of weir_torch.h.
#pragma once

#include "weir_torch.h"

extern "C" {

struct WeirCompiled;

// Opens a compiled library for `runs` runs at once; more runs wait. The file may be deleted afterwards.
WeirStatus weir_compiled_load(const char* library, size_t runs, WeirCompiled** compiled, char** error);
void weir_compiled_free(WeirCompiled* compiled);
// Returns the structure of the inputs and of the outputs as JSON texts, which live as long as the model.
const char* weir_compiled_inputs(const WeirCompiled* compiled);
const char* weir_compiled_outputs(const WeirCompiled* compiled);

// Runs the code. Safe to call from several threads at once. `values` has a tensor per input. If `batched` is not 0, the
// first dimension of inputs and outputs is the batch, and a single row that the code refuses runs beside a copy of
// itself: torch compiles a variable dimension for at least two rows.
WeirStatus weir_compiled_run(
    WeirCompiled* compiled,
    const WeirValue* values,
    size_t count,
    int32_t batched,
    WeirRun options,
    WeirAnswer** answer,
    char** error);
}
