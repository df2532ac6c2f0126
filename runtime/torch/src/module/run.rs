//! A call of a module's method: its arguments and its result.

use std::ffi::CString;
use std::ptr;

use bytes::Bytes;

use super::raw::{slice, text};
use super::{Code, Module};
use crate::libtorch::captures;
use crate::libtorch::fault::Fault;
use crate::libtorch::ffi::{self, RawAnswer, RawOutput, RawRun, RawValue};
use crate::libtorch::stream::Stream;
use crate::libtorch::tensor::Tensor;
use crate::settings::RunOptions;

/// The value of one argument or dict entry.
#[derive(Debug)]
pub(crate) enum Value {
    /// An optional argument without a value.
    Absent,
    Tensor(Tensor),
    /// Strings, each prefixed with its length as a little-endian `u32`.
    Strings(Bytes),
}

/// The values of one call of `forward`.
#[derive(Debug)]
pub(crate) enum Values {
    /// One value per argument, in order.
    Positional(Vec<Value>),
    /// The dict entries of the only argument.
    Dict(Vec<(CString, Value)>),
}

/// Switch for counting a run's device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metering {
    On,
    Off,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) outputs: Vec<Output>,
    /// Path of each output if the method's outputs are [`Returned::Keyed`], otherwise empty.
    pub(crate) paths: Vec<String>,
    /// Peak bytes allocated on the module's device, not counting inputs; 0 with [`Metering::Off`].
    pub(crate) peak: u64,
}

/// One output of a run.
#[derive(Debug)]
pub(crate) enum Output {
    /// A contiguous tensor, in host memory or on the module's device.
    Tensor(Tensor),
    /// Strings encoded as in [`Value::Strings`], and their number.
    Strings { data: Bytes, count: usize },
}

impl Value {
    /// Returns the sizes of a tensor; none for other values.
    pub(super) fn sizes(&self) -> Vec<i64> {
        match self {
            Self::Tensor(tensor) => tensor.sizes(),
            Self::Absent | Self::Strings(_) => Vec::new(),
        }
    }
}

impl Module {
    /// Calls `forward`. With a stream of the module's device, the work is only queued there, and the contents of output
    /// tensors become valid when that work is done.
    pub(crate) fn run(
        &self,
        values: &Values,
        options: RunOptions,
        metering: Metering,
        stream: Option<&Stream>,
    ) -> Result<Run, Fault> {
        let _no_capture = self.draws.then(captures::hold_off);
        let module = match &self.code {
            Code::Script(raw) => *raw,
            Code::Exported(exported) => return exported.run(values, options, metering, stream),
            Code::Compiled(compiled) => return compiled.run(values, options),
            Code::Onnx(_) => return Err(Fault::Raised("an ONNX model takes no tensors of libtorch".to_owned())),
        };
        let raw_values: Vec<RawValue> = match values {
            Values::Positional(values) => values.iter().map(|value| raw_value(None, value)).collect(),
            Values::Dict(entries) => entries.iter().map(|(key, value)| raw_value(Some(key), value)).collect(),
        };
        let mut answer = ptr::null_mut();
        // SAFETY: the values behind `raw_values` outlive the call, which keeps only counted references to the tensors.
        Fault::check(|error| unsafe {
            ffi::weir_module_run(
                module,
                raw_values.as_ptr(),
                raw_values.len(),
                raw_run(options, metering, stream),
                &mut answer,
                error,
            )
        })?;
        Ok(take_run(answer))
    }
}

pub(super) fn raw_value(key: Option<&CString>, value: &Value) -> RawValue {
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

pub(super) fn raw_run(options: RunOptions, metering: Metering, stream: Option<&Stream>) -> RawRun {
    let RunOptions { inference_mode, optimize } = options;
    RawRun {
        inference_mode: inference_mode.into(),
        optimize: optimize.into(),
        metered: (metering == Metering::On).into(),
        stream: stream.map_or(ptr::null(), Stream::as_raw),
    }
}

pub(super) fn take_run(answer: *mut RawAnswer) -> Run {
    // SAFETY: `answer` is owned by this function. Each tensor is taken once, and texts are copied before the answer is
    // freed.
    unsafe {
        let count = ffi::weir_answer_count(answer);
        let mut run =
            Run { outputs: Vec::with_capacity(count), paths: Vec::new(), peak: ffi::weir_answer_peak_bytes(answer) };
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
/// The output must have just been taken, and its answer must still be alive.
unsafe fn output(raw: &RawOutput) -> Output {
    match Tensor::from_raw(raw.tensor) {
        Some(tensor) => Output::Tensor(tensor),
        None => Output::Strings {
            // SAFETY: the caller guarantees that the answer, and so its strings, are alive.
            data: Bytes::copy_from_slice(unsafe { slice(raw.strings, raw.strings_size) }),
            count: raw.strings_count,
        },
    }
}
