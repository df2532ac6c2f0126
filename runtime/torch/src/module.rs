//! A loaded TorchScript module: its arguments, and calls of `forward`.

#![expect(unsafe_code, reason = "owns libtorch's modules")]

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use bytes::Bytes;
use weir_runtime::backend::Device;

use crate::fault::Fault;
use crate::ffi::{
    self, RawAnswer, RawArgument, RawModule, RawOutput, RawResult, RawRun, RawShape, RawValue,
};
use crate::process;
use crate::settings::RunOptions;
use crate::stream::Stream;
use crate::tensor::{Tensor, sizes_of};

mod copies;

pub(crate) use copies::SelfWrites;

/// Weights and code on one device, shared by the instances on it unless `forward` writes to them.
#[derive(Debug)]
pub(crate) struct Module {
    raw: *mut RawModule,
    device: Device,
    /// The file it was loaded from.
    path: PathBuf,
    /// The method that it runs.
    method: String,
    arguments: Vec<Argument>,
    writes: SelfWrites,
    returned: Returned,
}

// SAFETY: the shim's functions on a module are const but for `run`, and running a TorchScript method
// from several threads at once is supported: each run has its own interpreter state. One that writes to
// itself is no exception for the compiler, but each instance has its own (`Weights`).
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// An argument of `forward`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    /// Name in the model's source.
    pub(crate) name: String,
    /// Type as TorchScript writes it, such as `Optional[Tensor]`.
    pub(crate) type_text: String,
    pub(crate) kind: ArgumentKind,
    /// True if a call may leave it out.
    pub(crate) optional: bool,
    /// True if `forward` may change it in place.
    pub(crate) mutated: bool,
    /// Shape it was traced with, if the module was traced.
    pub(crate) example: Option<Example>,
}

/// The kind of value that an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    /// A tensor, or none if the argument is optional.
    Tensor,
    /// A list of strings, `List[str]`.
    Strings,
    /// A dict of tensors, `Dict[str, Tensor]`.
    TensorDict,
    /// A list of tensors, `List[Tensor]`.
    TensorList,
    /// A single number or string.
    Scalar(ScalarKind),
    /// A list of numbers, such as `List[int]`.
    Numbers(ScalarKind),
    /// Any other type, which no request can supply.
    Other,
}

impl ArgumentKind {
    /// Checks whether it is one value for a whole batch, not one for each row.
    pub(crate) fn is_one_value(self) -> bool {
        match self {
            Self::Scalar(_) | Self::Numbers(_) => true,
            Self::Tensor | Self::Strings | Self::TensorDict | Self::TensorList | Self::Other => {
                false
            }
        }
    }
}

/// A type of Python's that is no tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Int,
    Float,
    Bool,
    Str,
}

/// The outputs of a run, as far as the method's type tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Returned {
    /// The same in each run, with these paths.
    Fixed(Vec<String>),
    /// The elements of a list, whose length may vary.
    List,
    /// Values in dicts, in lists inside other values, or that may be None: each run says which.
    Keyed,
    /// Nothing that can be served; the text says why, and what to write.
    Unservable(String),
}

/// The element type (`c10::ScalarType`) and sizes of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) element_type: i32,
    pub(crate) sizes: Vec<i64>,
}

/// The value of one argument or dict entry.
#[derive(Debug)]
pub(crate) enum Value {
    /// None: an optional argument is left out.
    Absent,
    Tensor(Tensor),
    /// Strings, each after its length as a little-endian `u32`.
    Strings(Bytes),
}

/// The values of one call of `forward`.
#[derive(Debug)]
pub(crate) enum Values {
    /// One for each argument, in order.
    Positional(Vec<Value>),
    /// The entries of its only argument.
    Dict(Vec<(CString, Value)>),
}

/// The switch for counting a run's device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metering {
    On,
    Off,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) outputs: Vec<Output>,
    /// Path of each output where the method's are [`Returned::Keyed`], otherwise none.
    pub(crate) paths: Vec<String>,
    /// Peak bytes of the module's device, its inputs not counted; 0 with [`Metering::Off`].
    pub(crate) peak: u64,
}

/// One output of a run.
#[derive(Debug)]
pub(crate) enum Output {
    /// A contiguous tensor, in host memory or on the module's device.
    Tensor(Tensor),
    /// Strings as in [`Value::Strings`], and their count.
    Strings { data: Bytes, count: usize },
}

impl Module {
    /// Loads a TorchScript file onto a device, to run one of its methods.
    pub(crate) fn load(file: &Path, device: Device, method: &str) -> Result<Self, Fault> {
        let path = c_path(file)?;
        let c_method = c_text(method)?;
        let index = match device {
            Device::Cpu => -1,
            Device::Cuda(index) => i32::try_from(index).unwrap_or(i32::MAX),
        };
        let (mut raw, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: both texts are NUL-terminated, and both results are valid for writes.
        let status = unsafe {
            ffi::weir_module_load(
                path.as_ptr(),
                c_method.as_ptr(),
                index,
                &mut raw,
                &mut error,
            )
        };
        Fault::check(status, error)?;
        // SAFETY: the module was just loaded.
        let returned = unsafe { returned(ffi::weir_module_result(raw)) };
        Ok(Self {
            raw,
            device,
            path: file.to_owned(),
            method: method.to_owned(),
            arguments: arguments(raw),
            writes: copies::self_writes(raw),
            returned,
        })
    }

    /// Checks whether `forward` calls a convolution.
    pub(crate) fn has_convolution(&self) -> bool {
        // SAFETY: the module is alive.
        unsafe { ffi::weir_module_convolves(self.raw) != 0 }
    }

    /// Loads the same file again, optimised for inference on the processor: weights become constants of the
    /// code, in the layout that convolutions need. The outputs are the same.
    pub(crate) fn load_optimized(&self, path: &Path) -> Result<Self, Fault> {
        let path = c_path(path)?;
        let (mut raw, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: `path` is NUL-terminated, and both results are valid for writes.
        let status =
            unsafe { ffi::weir_module_load_optimized(path.as_ptr(), &mut raw, &mut error) };
        Fault::check(status, error)?;
        Ok(Self {
            raw,
            device: self.device,
            path: self.path.clone(),
            method: self.method.clone(),
            arguments: self.arguments.clone(),
            writes: self.writes.clone(),
            returned: self.returned.clone(),
        })
    }

    /// The arguments of `forward`, without `self`.
    pub(crate) fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// The outputs of each run.
    pub(crate) fn returned(&self) -> &Returned {
        &self.returned
    }

    /// Returns the shapes of the parameters in the order they were registered, usually that of their use.
    pub(crate) fn parameters(&self) -> Vec<Example> {
        let (mut first, mut count) = (ptr::null(), 0);
        // SAFETY: the array lives as long as the module; it is copied at once.
        unsafe {
            ffi::weir_module_parameters(self.raw, &mut first, &mut count);
            slice(first, count)
                .iter()
                .filter_map(|shape| example(*shape))
                .collect()
        }
    }

    /// Bytes that its parameters, buffers and constants take on its CUDA device; 0 on the processor.
    pub(crate) fn device_bytes(&self) -> u64 {
        // SAFETY: the module is alive.
        unsafe { ffi::weir_module_device_bytes(self.raw) }
    }

    /// Calls `forward`. With a stream of the module's device, the work is queued there, and the contents of
    /// output tensors are valid once it is done.
    pub(crate) fn run(
        &self,
        values: &Values,
        options: RunOptions,
        metering: Metering,
        stream: Option<&Stream>,
    ) -> Result<Run, Fault> {
        let raw_values: Vec<RawValue> = match values {
            Values::Positional(values) => {
                values.iter().map(|value| raw_value(None, value)).collect()
            }
            Values::Dict(entries) => entries
                .iter()
                .map(|(key, value)| raw_value(Some(key), value))
                .collect(),
        };
        let (mut answer, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the values behind `raw_values` outlive the call, which keeps only counted references to
        // the tensors.
        let status = unsafe {
            ffi::weir_module_run(
                self.raw,
                raw_values.as_ptr(),
                raw_values.len(),
                raw_run(options, metering, stream),
                &mut answer,
                &mut error,
            )
        };
        Fault::check(status, error)?;
        Ok(take_run(answer))
    }
}

impl Drop for Module {
    /// Returns the model's device memory to the driver, for use by others.
    fn drop(&mut self) {
        // SAFETY: we own it, and nothing uses it after this.
        unsafe { ffi::weir_module_free(self.raw) }
        match self.device {
            Device::Cpu => {}
            Device::Cuda(_) => {
                if let Err(fault) = process::empty_cuda_cache() {
                    tracing::warn!(%fault, "cannot free the GPU memory of an unloaded model");
                }
            }
        }
    }
}

/// The properties of an archive, read from its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Archive {
    /// Sum of its records' unpacked sizes, in bytes.
    pub(crate) unpacked: u64,
    /// True if it has TorchScript's records, and not only tensors.
    pub(crate) is_script: bool,
}

impl Archive {
    /// Reads the directory of a zip archive, but none of its records.
    pub(crate) fn inspect(path: &Path) -> Result<Self, Fault> {
        let path = c_path(path)?;
        let (mut unpacked, mut is_script, mut error) = (0, 0, ptr::null_mut());
        // SAFETY: `path` is NUL-terminated, and the results are valid for writes.
        let status = unsafe {
            ffi::weir_archive_inspect(path.as_ptr(), &mut unpacked, &mut is_script, &mut error)
        };
        Fault::check(status, error)?;
        Ok(Self {
            unpacked,
            is_script: is_script != 0,
        })
    }
}

fn c_path(path: &Path) -> Result<CString, Fault> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Fault::Raised(format!("the path {path:?} contains a NUL byte")))
}

fn c_text(text: &str) -> Result<CString, Fault> {
    CString::new(text).map_err(|_| Fault::Raised(format!("{text:?} contains a NUL byte")))
}

fn arguments(module: *const RawModule) -> Vec<Argument> {
    let (mut first, mut count) = (ptr::null(), 0);
    // SAFETY: the module and its arguments are alive; they are copied at once.
    unsafe {
        ffi::weir_module_arguments(module, &mut first, &mut count);
        slice(first, count)
            .iter()
            .map(|raw| argument(raw))
            .collect()
    }
}

/// # Safety
/// What `raw` points to must be alive.
unsafe fn argument(raw: &RawArgument) -> Argument {
    // SAFETY: the caller guarantees that it is alive; the shim's texts are NUL-terminated.
    let (name, type_text, example) = unsafe {
        (
            CStr::from_ptr(raw.name).to_string_lossy().into_owned(),
            CStr::from_ptr(raw.type_text).to_string_lossy().into_owned(),
            example(raw.example),
        )
    };
    Argument {
        name,
        type_text,
        kind: kind(raw.kind),
        optional: raw.optional != 0,
        mutated: raw.written_to != 0,
        example,
    }
}

/// Returns the kind of that number in `WeirKind`.
fn kind(number: i32) -> ArgumentKind {
    match number {
        0 => ArgumentKind::Tensor,
        1 => ArgumentKind::Strings,
        2 => ArgumentKind::TensorDict,
        3 => ArgumentKind::TensorList,
        4 => ArgumentKind::Scalar(ScalarKind::Int),
        5 => ArgumentKind::Scalar(ScalarKind::Float),
        6 => ArgumentKind::Scalar(ScalarKind::Bool),
        7 => ArgumentKind::Scalar(ScalarKind::Str),
        8 => ArgumentKind::Numbers(ScalarKind::Int),
        9 => ArgumentKind::Numbers(ScalarKind::Float),
        10 => ArgumentKind::Numbers(ScalarKind::Bool),
        _ => ArgumentKind::Other,
    }
}

/// # Safety
/// What `raw` points to must be alive.
unsafe fn returned(raw: RawResult) -> Returned {
    // SAFETY: the caller guarantees that it is alive; the texts are copied at once.
    if let Some(refusal) = unsafe { text(raw.refusal) } {
        return Returned::Unservable(refusal);
    }
    // The numbers of `WeirForm`.
    match raw.form {
        1 => Returned::List,
        2 => Returned::Keyed,
        _ => {
            // SAFETY: as above.
            let paths = unsafe { slice(raw.paths, raw.count) }.iter();
            // SAFETY: as above.
            Returned::Fixed(paths.filter_map(|path| unsafe { text(*path) }).collect())
        }
    }
}

/// Copies a text; `None` for null.
///
/// # Safety
/// A text that is not null must be alive and NUL-terminated.
unsafe fn text(raw: *const c_char) -> Option<String> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees it.
    Some(
        unsafe { CStr::from_ptr(raw) }
            .to_string_lossy()
            .into_owned(),
    )
}

/// # Safety
/// What `shape` points to must be alive.
unsafe fn example(shape: RawShape) -> Option<Example> {
    if shape.element_type < 0 {
        return None;
    }
    // SAFETY: the caller guarantees that it is alive.
    let sizes = unsafe { sizes_of(shape) };
    Some(Example {
        element_type: shape.element_type,
        sizes,
    })
}

/// # Safety
/// `first` must point to `count` live elements, or `count` be 0.
unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { std::slice::from_raw_parts(first, count) }
}

fn raw_value(key: Option<&CString>, value: &Value) -> RawValue {
    let mut raw = RawValue {
        key: key.map_or(ptr::null(), |key| key.as_ptr()),
        tensor: ptr::null(),
        strings: ptr::null(),
        strings_size: 0,
        given: 1,
    };
    match value {
        Value::Absent => raw.given = 0,
        Value::Tensor(tensor) => raw.tensor = tensor.as_raw(),
        Value::Strings(data) => {
            raw.strings = data.as_ptr();
            raw.strings_size = data.len();
        }
    }
    raw
}

fn raw_run(options: RunOptions, metering: Metering, stream: Option<&Stream>) -> RawRun {
    let RunOptions {
        inference_mode,
        optimize,
    } = options;
    RawRun {
        inference_mode: inference_mode.into(),
        optimize: optimize.into(),
        metered: (metering == Metering::On).into(),
        stream: stream.map_or(ptr::null(), Stream::as_raw),
    }
}

fn take_run(answer: *mut RawAnswer) -> Run {
    // SAFETY: the answer is ours; its tensors are taken once, its texts copied before it is freed.
    unsafe {
        let count = ffi::weir_answer_count(answer);
        let mut run = Run {
            outputs: Vec::with_capacity(count),
            paths: Vec::new(),
            peak: ffi::weir_answer_peak_bytes(answer),
        };
        for index in 0..count {
            let raw = ffi::weir_answer_take(answer, index);
            run.paths.extend(text(raw.path));
            run.outputs.push(output(&raw));
        }
        ffi::weir_answer_free(answer);
        run
    }
}

/// # Safety
/// The output must have just been taken, its answer be alive.
unsafe fn output(raw: &RawOutput) -> Output {
    match Tensor::from_raw(raw.tensor) {
        Some(tensor) => Output::Tensor(tensor),
        None => Output::Strings {
            // SAFETY: the caller guarantees that they are alive.
            data: Bytes::copy_from_slice(unsafe { slice(raw.strings, raw.strings_size) }),
            count: raw.strings_count,
        },
    }
}

pub(crate) mod hints;

#[cfg(test)]
mod tests;
