//! Settings and libraries of the whole process, and settings of single threads.

#![expect(unsafe_code, reason = "sets libtorch's switches")]

use std::cell::Cell;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weir_runtime::app::Pool;
use weir_runtime::backend::Device;

use crate::libtorch::captures;
use crate::libtorch::fault::{self, Fault};
use crate::libtorch::ffi;
use crate::settings::ProcessSettings;

/// The settings that models have applied so far.
static APPLIED: Mutex<ProcessSettings> = Mutex::new(ProcessSettings {
    inter_op_threads: None,
    jit_executor: None,
    jit_profiling: None,
    tensor_fuser: None,
    disable_cudnn: None,
});

/// True once a model on a GPU has been loaded.
static ANY_GPU: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Number of intra-operation threads that this thread has set; 0 if it has set none.
    static THREADS: Cell<i32> = const { Cell::new(0) };
}

/// Applies the settings that no earlier model has set. Logs a warning for the others if they differ.
pub(crate) fn apply(model: &str, settings: ProcessSettings) {
    let ProcessSettings { inter_op_threads, jit_executor, jit_profiling, tensor_fuser, disable_cudnn } = settings;
    let mut applied = APPLIED.lock();
    let switch = |name, applied: &mut Option<bool>, value, set: unsafe extern "C" fn(i32), invert| {
        apply_once(model, name, applied, value, |value: bool| {
            // SAFETY: the shim's switches take any number and write an atomic.
            unsafe { set((value != invert).into()) }
        });
    };
    switch("ENABLE_JIT_EXECUTOR", &mut applied.jit_executor, jit_executor, ffi::weir_set_jit_executor, false);
    switch("ENABLE_JIT_PROFILING", &mut applied.jit_profiling, jit_profiling, ffi::weir_set_jit_profiling, false);
    switch("ENABLE_TENSOR_FUSER", &mut applied.tensor_fuser, tensor_fuser, ffi::weir_set_tensor_fuser, false);
    switch("DISABLE_CUDNN", &mut applied.disable_cudnn, disable_cudnn, ffi::weir_set_cudnn, true);
    let threads = &mut applied.inter_op_threads;
    apply_once(model, "INTER_OP_THREAD_COUNT", threads, inter_op_threads, set_inter_op_threads);
}

/// Makes the code of AOTInductor's packages check the sizes and datatypes of its inputs before it reads them, in this
/// process and in its children. The process must have no other thread yet.
pub(crate) fn check_compiled_inputs() {
    // SAFETY: no other thread reads the environment.
    unsafe { std::env::set_var("AOTI_RUNTIME_CHECK_INPUTS", "1") }
}

/// Sets the folder in which this process makes temporary files. The process must have no other thread yet.
pub(crate) fn set_temporary_folder(folder: &Path) {
    // SAFETY: no other thread reads the environment.
    unsafe { std::env::set_var("TMPDIR", folder) }
}

/// Switches the JIT's profiling of first runs, unless a model has set `ENABLE_JIT_PROFILING`. It is on once a model is
/// on a GPU, for which libtorch then fuses operations. On the CPU libtorch fuses none, and profiling would cost a
/// second compilation and the compilation of all gradients: 40 ms of a small model's start.
pub(crate) fn set_profiling(devices: &[Device]) {
    let on_gpu = devices.iter().any(|device| *device != Device::Cpu);
    let on_gpu = ANY_GPU.fetch_or(on_gpu, Ordering::Relaxed) || on_gpu;
    let applied = APPLIED.lock();
    if applied.jit_profiling.is_none() {
        // SAFETY: the shim's switches take any number and write an atomic.
        unsafe { ffi::weir_set_jit_profiling(on_gpu.into()) };
    }
}

/// Sets the number of threads for operations that this thread starts. Does nothing if the number is unchanged.
pub(crate) fn set_intra_op_threads(count: i32) -> Result<(), Fault> {
    if THREADS.get() == count {
        return Ok(());
    }
    // SAFETY: `error` is valid for writes.
    Fault::check(|error| unsafe { ffi::weir_set_intra_op_threads(count, error) })?;
    THREADS.set(count);
    Ok(())
}

/// Opens a shared library permanently, with its symbols global.
///
/// # Errors
/// The dynamic loader's message.
pub(crate) fn open_library(name: &str) -> Result<(), String> {
    let name = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: `name` is NUL-terminated. The libraries that this crate opens, CUDA's driver and libtorch_cuda, have
    // initialisers that may run at any time.
    let message = unsafe { ffi::weir_open_library(name.as_ptr()) };
    fault::take(message).map_or(Ok(()), Err)
}

/// Opens a library of operators permanently. A child process opens it first, so that a library that throws or crashes
/// while it is opened harms only the child.
pub(crate) fn open_operators(path: &Path) -> Result<(), Fault> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|error| Fault::Raised(error.to_string()))?;
    // SAFETY: `path` is NUL-terminated, and `error` is valid for writes. The library's initialisers are the user's
    // code, like the model, and a child process has run them without harm.
    Fault::check(|error| unsafe { ffi::weir_open_operators(path.as_ptr(), error) })
}

/// Returns the number of visible CUDA devices. libtorch_cuda must be open.
pub(crate) fn cuda_devices() -> Result<usize, Fault> {
    let mut count = 0;
    // SAFETY: both are valid for writes.
    Fault::check(|error| unsafe { ffi::weir_cuda_devices(&mut count, error) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Returns the memory cached by libtorch's CUDA allocators to the driver. Waits for the queued work of all models, and
/// for a capture.
pub(crate) fn empty_cuda_cache() -> Result<(), Fault> {
    let _no_capture = captures::hold_off();
    // SAFETY: `error` is valid for writes.
    Fault::check(|error| unsafe { ffi::weir_cuda_empty_cache(error) })
}

/// Waits for all work that is queued on a device; does nothing for the CPU.
pub(crate) fn synchronize(device: Device) -> Result<(), Fault> {
    let Device::Cuda(index) = device else { return Ok(()) };
    let index = i32::try_from(index).unwrap_or(i32::MAX);
    let _no_capture = captures::hold_off();
    // SAFETY: `error` is valid for writes.
    Fault::check(|error| unsafe { ffi::weir_cuda_synchronize(index, error) })
}

/// Returns the memory of a CUDA device that libtorch's allocator holds for this process, and the part of it in use by
/// tensors, in bytes.
///
/// # Errors
/// If no model has used the device yet.
pub(crate) fn cuda_memory(device: usize) -> Result<Pool, Fault> {
    let index = i32::try_from(device).unwrap_or(i32::MAX);
    let mut pool = Pool::default();
    // SAFETY: all three results are valid for writes.
    Fault::check(|error| unsafe { ffi::weir_cuda_memory(index, &mut pool.total, &mut pool.used, error) })?;
    Ok(pool)
}

/// Applies a setting, unless a model has applied it before.
fn apply_once<T: Copy + PartialEq + std::fmt::Debug>(
    model: &str,
    name: &str,
    applied: &mut Option<T>,
    value: Option<T>,
    set: impl FnOnce(T),
) {
    match (*applied, value) {
        (_, None) => {}
        (Some(before), Some(value)) if before == value => {}
        (Some(before), Some(value)) => tracing::warn!(
            model,
            parameter = name,
            ?value,
            in_use = ?before,
            "ignored: an earlier model has set this parameter for the whole process"
        ),
        (None, Some(value)) => {
            set(value);
            *applied = Some(value);
        }
    }
}

fn set_inter_op_threads(count: i32) {
    // SAFETY: `error` is valid for writes.
    if let Err(fault) = Fault::check(|error| unsafe { ffi::weir_set_inter_op_threads(count, error) }) {
        tracing::warn!(%fault, "cannot apply INTER_OP_THREAD_COUNT, which must be set by the first model loaded");
    }
}
