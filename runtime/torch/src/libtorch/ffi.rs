//! The C functions of `shim/weir_torch.h`, `shim/exported.h`, `shim/compiled.h` and `shim/graph.h`, which document them.
//! Only `tensor`, `module`, `stream`, `graph`, `gpu_meter`, `process` and `fault` call them; each wraps them in safe
//! functions.

#![expect(unsafe_code, reason = "declares foreign functions; the SAFETY notes are at their calls")]

use std::ffi::{c_char, c_void};

/// `WEIR_OK` of `WeirStatus`: success.
pub(crate) const OK: i32 = 0;

/// `WEIR_OUT_OF_MEMORY` of `WeirStatus`, on the device or the host.
pub(crate) const OUT_OF_MEMORY: i32 = 2;

/// An opaque `at::Tensor` of libtorch.
#[repr(C)]
pub(crate) struct RawTensor {
    opaque: [u8; 0],
}

/// An opaque `WeirModule` of the shim.
#[repr(C)]
pub(crate) struct RawModule {
    opaque: [u8; 0],
}

/// An opaque `WeirAnswer` of the shim.
#[repr(C)]
pub(crate) struct RawAnswer {
    opaque: [u8; 0],
}

/// An opaque `WeirStream` of the shim.
#[repr(C)]
pub(crate) struct RawStream {
    opaque: [u8; 0],
}

/// An opaque `WeirEvent` of the shim.
#[repr(C)]
pub(crate) struct RawEvent {
    opaque: [u8; 0],
}

/// An opaque `WeirExported` of the shim.
#[repr(C)]
pub(crate) struct RawExported {
    opaque: [u8; 0],
}

/// An opaque `WeirCompiled` of the shim.
#[repr(C)]
pub(crate) struct RawCompiled {
    opaque: [u8; 0],
}

/// An opaque `WeirGraph` of the library of CUDA graphs.
#[repr(C)]
pub(crate) struct RawGraph {
    opaque: [u8; 0],
}

/// The functions of the library of CUDA graphs.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RawGraphFunctions {
    pub(crate) begin:
        unsafe extern "C" fn(*const RawStream, *const RawGraph, *mut *mut RawGraph, *mut *mut c_char) -> i32,
    pub(crate) end: unsafe extern "C" fn(*mut RawGraph, *const RawStream, *mut *mut c_char) -> i32,
    pub(crate) replay: unsafe extern "C" fn(*mut RawGraph, *const RawStream, *mut *mut c_char) -> i32,
    pub(crate) free: unsafe extern "C" fn(*mut RawGraph),
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawExportedCode {
    pub(crate) numbers: *const i64,
    pub(crate) count: usize,
    pub(crate) texts: *const *const c_char,
    pub(crate) text_count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawShape {
    pub(crate) sizes: *const i64,
    pub(crate) rank: usize,
    pub(crate) element_type: i32,
}

#[repr(C)]
pub(crate) struct RawArgument {
    pub(crate) name: *const c_char,
    pub(crate) type_text: *const c_char,
    pub(crate) kind: i32,
    pub(crate) optional: i32,
    pub(crate) written_to: i32,
    pub(crate) example: RawShape,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawResult {
    pub(crate) form: i32,
    pub(crate) paths: *const *const c_char,
    pub(crate) count: usize,
    pub(crate) refusal: *const c_char,
}

#[repr(C)]
pub(crate) struct RawHint {
    pub(crate) argument: usize,
    pub(crate) kind: i32,
    pub(crate) converted: i32,
    pub(crate) sizes: RawShape,
}

#[repr(C)]
pub(crate) struct RawValue {
    pub(crate) key: *const c_char,
    pub(crate) tensor: *const RawTensor,
    pub(crate) strings: *const u8,
    pub(crate) strings_size: usize,
    pub(crate) given: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawRun {
    pub(crate) inference_mode: i32,
    pub(crate) optimize: i32,
    pub(crate) metered: i32,
    pub(crate) stream: *const RawStream,
}

#[repr(C)]
pub(crate) struct RawOutput {
    pub(crate) tensor: *mut RawTensor,
    pub(crate) strings: *const u8,
    pub(crate) strings_size: usize,
    pub(crate) strings_count: usize,
    pub(crate) path: *const c_char,
}

#[repr(C)]
pub(crate) struct RawView {
    pub(crate) shape: RawShape,
    pub(crate) data: *mut c_void,
    pub(crate) bytes: usize,
    pub(crate) on_processor: i32,
}

#[repr(C)]
pub(crate) struct RawGpu {
    pub(crate) uuid: [u8; 48],
    pub(crate) utilization: f64,
    pub(crate) memory_total: f64,
    pub(crate) memory_used: f64,
    pub(crate) power: f64,
    pub(crate) power_limit: f64,
    pub(crate) energy: f64,
}

impl RawGpu {
    /// A GPU state without any value.
    pub(crate) const UNKNOWN: Self = Self {
        uuid: [0; 48],
        utilization: -1.0,
        memory_total: -1.0,
        memory_used: -1.0,
        power: -1.0,
        power_limit: -1.0,
        energy: -1.0,
    };
}

unsafe extern "C" {
    pub(crate) fn weir_module_load(
        path: *const c_char,
        method: *const c_char,
        device: i32,
        module: *mut *mut RawModule,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_module_free(module: *mut RawModule);
    pub(crate) fn weir_module_convolves(module: *const RawModule) -> i32;
    pub(crate) fn weir_module_names_cuda(module: *const RawModule) -> i32;
    pub(crate) fn weir_module_writes(module: *const RawModule, place: *mut *const c_char) -> i32;
    pub(crate) fn weir_module_operators(module: *const RawModule, names: *mut *const *const c_char, count: *mut usize);
    pub(crate) fn weir_module_trains(module: *const RawModule) -> i32;
    pub(crate) fn weir_module_bytes(module: *const RawModule, bytes: *mut u64, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_module_copy(module: *const RawModule, copy: *mut *mut RawModule, error: *mut *mut c_char)
    -> i32;
    pub(crate) fn weir_module_load_optimized(
        path: *const c_char,
        module: *mut *mut RawModule,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_module_arguments(
        module: *const RawModule,
        arguments: *mut *const RawArgument,
        count: *mut usize,
    );
    pub(crate) fn weir_module_result(module: *const RawModule) -> RawResult;
    pub(crate) fn weir_module_parameters(module: *const RawModule, shapes: *mut *const RawShape, count: *mut usize);
    pub(crate) fn weir_module_hints(
        module: *mut RawModule,
        hints: *mut *const RawHint,
        count: *mut usize,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_module_device_bytes(module: *const RawModule) -> u64;
    pub(crate) fn weir_module_run(
        module: *mut RawModule,
        values: *const RawValue,
        count: usize,
        options: RawRun,
        answer: *mut *mut RawAnswer,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_exported_load(
        code: RawExportedCode,
        payloads: *const *const RawTensor,
        payload_count: usize,
        device: i32,
        exported: *mut *mut RawExported,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_exported_prepare(exported: *mut RawExported, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_exported_free(exported: *mut RawExported);
    pub(crate) fn weir_exported_bytes(exported: *const RawExported) -> u64;
    pub(crate) fn weir_exported_device_bytes(exported: *const RawExported) -> u64;
    pub(crate) fn weir_exported_run(
        exported: *const RawExported,
        values: *const RawValue,
        count: usize,
        options: RawRun,
        answer: *mut *mut RawAnswer,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_compiled_load(
        library: *const c_char,
        runs: usize,
        compiled: *mut *mut RawCompiled,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_compiled_free(compiled: *mut RawCompiled);
    pub(crate) fn weir_compiled_inputs(compiled: *const RawCompiled) -> *const c_char;
    pub(crate) fn weir_compiled_outputs(compiled: *const RawCompiled) -> *const c_char;
    pub(crate) fn weir_compiled_run(
        compiled: *mut RawCompiled,
        values: *const RawValue,
        count: usize,
        batched: i32,
        options: RawRun,
        answer: *mut *mut RawAnswer,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_answer_free(answer: *mut RawAnswer);
    pub(crate) fn weir_answer_count(answer: *const RawAnswer) -> usize;
    pub(crate) fn weir_answer_peak_bytes(answer: *const RawAnswer) -> u64;
    pub(crate) fn weir_answer_take(answer: *mut RawAnswer, index: usize) -> RawOutput;
    pub(crate) fn weir_archive_inspect(
        path: *const c_char,
        claimed: *mut u64,
        is_script: *mut i32,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_tensor_empty(shape: RawShape, tensor: *mut *mut RawTensor, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_tensor_borrow(
        data: *const c_void,
        shape: RawShape,
        owner: *mut c_void,
        release: extern "C" fn(*mut c_void),
        tensor: *mut *mut RawTensor,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_tensor_pinned(shape: RawShape, tensor: *mut *mut RawTensor, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_tensor_upload(
        pinned: *const RawTensor,
        on: *const RawStream,
        reader: *const RawStream,
        copy: *mut *mut RawTensor,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_tensor_download(
        tensor: *const RawTensor,
        on: *const RawStream,
        copy: *mut *mut RawTensor,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_tensor_copy_rows(
        from: *const RawTensor,
        to: *const RawTensor,
        on: *const RawStream,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_tensor_first_rows(
        tensor: *const RawTensor,
        rows: i64,
        first: *mut *mut RawTensor,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_tensor_view(tensor: *const RawTensor) -> RawView;
    pub(crate) fn weir_tensor_free(tensor: *mut RawTensor);
    pub(crate) fn weir_set_intra_op_threads(count: i32, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_set_inter_op_threads(count: i32, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_set_jit_executor(enabled: i32);
    pub(crate) fn weir_set_jit_profiling(enabled: i32);
    pub(crate) fn weir_set_tensor_fuser(enabled: i32);
    pub(crate) fn weir_set_cudnn(enabled: i32);
    pub(crate) fn weir_cuda_devices(count: *mut i32, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_gpu_read(index: i32, gpu: *mut RawGpu) -> i32;
    pub(crate) fn weir_cuda_empty_cache(error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_cuda_synchronize(device: i32, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_cuda_memory(
        device: i32,
        reserved: *mut u64,
        allocated: *mut u64,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_stream_new(device: i32, stream: *mut *mut RawStream, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_stream_number(stream: *const RawStream) -> i64;
    pub(crate) fn weir_stream_wait(stream: *const RawStream, event: *const RawEvent, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_stream_synchronize(stream: *const RawStream, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_stream_free(stream: *mut RawStream);
    pub(crate) fn weir_stream_record(
        stream: *const RawStream,
        event: *mut *mut RawEvent,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_event_synchronize(event: *const RawEvent, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_event_elapsed(
        from: *const RawEvent,
        to: *const RawEvent,
        milliseconds: *mut f64,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_event_free(event: *mut RawEvent);
    pub(crate) fn weir_graph_open(
        path: *const c_char,
        functions: *mut *const RawGraphFunctions,
        error: *mut *mut c_char,
    ) -> i32;
    pub(crate) fn weir_open_library(name: *const c_char) -> *mut c_char;
    pub(crate) fn weir_open_operators(path: *const c_char, error: *mut *mut c_char) -> i32;
    pub(crate) fn weir_text_free(text: *mut c_char);
}
