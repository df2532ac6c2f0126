//! Switches and libraries that belong to the whole process or to a thread of it.

#![expect(unsafe_code, reason = "turns libtorch's switches")]

use std::cell::Cell;
use std::ffi::CString;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use weir_runtime::backend::Device;

use crate::fault::{self, Fault};
use crate::ffi;
use crate::settings::ProcessSettings;

/// What models have set so far.
static SET: Mutex<ProcessSettings> = Mutex::new(ProcessSettings {
    inter_op_threads: None,
    jit_executor: None,
    jit_profiling: None,
    tensor_fuser: None,
    disable_cudnn: None,
});

/// Whether a model was to run on a GPU.
static ON_GPU: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The intra-operation threads this thread has asked for; 0 before it asked.
    static THREADS: Cell<i32> = const { Cell::new(0) };
}

/// Turns the switches that no model has set before; of the others, warns where they differ.
pub(crate) fn apply(model: &str, wanted: ProcessSettings) {
    let ProcessSettings {
        inter_op_threads,
        jit_executor,
        jit_profiling,
        tensor_fuser,
        disable_cudnn,
    } = wanted;
    let mut set = SET.lock().unwrap_or_else(PoisonError::into_inner);
    let switch = |name, set: &mut Option<bool>, wanted, turn: unsafe extern "C" fn(i32), invert| {
        first_wins(model, name, set, wanted, |value: bool| {
            // SAFETY: the shim's switches take any number and write an atomic.
            unsafe { turn((value != invert).into()) }
        });
    };
    switch(
        "ENABLE_JIT_EXECUTOR",
        &mut set.jit_executor,
        jit_executor,
        ffi::weir_set_jit_executor,
        false,
    );
    switch(
        "ENABLE_JIT_PROFILING",
        &mut set.jit_profiling,
        jit_profiling,
        ffi::weir_set_jit_profiling,
        false,
    );
    switch(
        "ENABLE_TENSOR_FUSER",
        &mut set.tensor_fuser,
        tensor_fuser,
        ffi::weir_set_tensor_fuser,
        false,
    );
    switch(
        "DISABLE_CUDNN",
        &mut set.disable_cudnn,
        disable_cudnn,
        ffi::weir_set_cudnn,
        true,
    );
    let threads = &mut set.inter_op_threads;
    first_wins(
        model,
        "INTER_OP_THREAD_COUNT",
        threads,
        inter_op_threads,
        set_inter_op_threads,
    );
}

/// Where no model has set `ENABLE_JIT_PROFILING`, has libtorch watch first runs only if it can gain by what it sees:
/// once a model is on a GPU, for which it fuses operations. On the processor it fuses none, and watching takes a
/// second compilation, and one of all the gradients it knows: 40 ms of a small model's start.
pub(crate) fn profile_for(devices: &[Device]) {
    let on_gpu = devices.iter().any(|device| *device != Device::Cpu);
    let on_gpu = ON_GPU.fetch_or(on_gpu, Ordering::Relaxed) || on_gpu;
    let set = SET.lock().unwrap_or_else(PoisonError::into_inner);
    if set.jit_profiling.is_none() {
        // SAFETY: the shim's switches take any number and write an atomic.
        unsafe { ffi::weir_set_jit_profiling(on_gpu.into()) };
    }
}

/// Lets operations that this thread starts use `count` threads. Cheap where nothing changes.
pub(crate) fn set_intra_op_threads(count: i32) -> Result<(), Fault> {
    if THREADS.get() == count {
        return Ok(());
    }
    let mut error = ptr::null_mut();
    // SAFETY: `error` is a place to write to.
    let status = unsafe { ffi::weir_set_intra_op_threads(count, &mut error) };
    Fault::check(status, error)?;
    THREADS.set(count);
    Ok(())
}

/// Opens a shared library for good, its symbols visible to all.
///
/// # Errors
/// What the loader says.
pub(crate) fn open_library(name: &str) -> Result<(), String> {
    let name = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: `name` is NUL-terminated. The initialisers of the libraries we open, CUDA's driver and
    // libtorch_cuda, may run at any time.
    let complaint = unsafe { ffi::weir_open_library(name.as_ptr()) };
    fault::take(complaint).map_or(Ok(()), Err)
}

/// How many CUDA devices are visible; asks libtorch_cuda, which must be open.
pub(crate) fn cuda_devices() -> Result<usize, Fault> {
    let (mut count, mut error) = (0, ptr::null_mut());
    // SAFETY: both are places to write to.
    let status = unsafe { ffi::weir_cuda_devices(&mut count, &mut error) };
    Fault::check(status, error)?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Gives the memory that libtorch's CUDA allocators keep for later back to the driver. Waits for queued
/// work, of all models.
pub(crate) fn empty_cuda_cache() -> Result<(), Fault> {
    let mut error = ptr::null_mut();
    // SAFETY: `error` is a place to write to.
    let status = unsafe { ffi::weir_cuda_empty_cache(&mut error) };
    Fault::check(status, error)
}

fn first_wins<T: Copy + PartialEq + std::fmt::Debug>(
    model: &str,
    name: &str,
    set: &mut Option<T>,
    wanted: Option<T>,
    turn: impl FnOnce(T),
) {
    match (*set, wanted) {
        (_, None) => {}
        (Some(before), Some(wanted)) if before == wanted => {}
        (Some(before), Some(wanted)) => tracing::warn!(
            model,
            parameter = name,
            ?wanted,
            ?before,
            "an earlier model has set this for the whole process; its value stays"
        ),
        (None, Some(wanted)) => {
            turn(wanted);
            *set = Some(wanted);
        }
    }
}

fn set_inter_op_threads(count: i32) {
    let mut error = ptr::null_mut();
    // SAFETY: `error` is a place to write to.
    let status = unsafe { ffi::weir_set_inter_op_threads(count, &mut error) };
    if let Err(fault) = Fault::check(status, error) {
        tracing::warn!(%fault, "INTER_OP_THREAD_COUNT comes too late");
    }
}
