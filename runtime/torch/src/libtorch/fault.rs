//! Exceptions of libtorch, reduced to the message for the user.

#![expect(unsafe_code, reason = "takes over the shim's error texts")]

use std::ffi::{CStr, c_char};
use std::ptr;

use weir_onnx::OnnxError;
use weir_runtime::backend::{LoadError, ModelError};

use crate::libtorch::ffi;

/// A call into libtorch that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// An exception: its `what()` text without the C++ backtrace.
    #[error("{0}")]
    Raised(String),
    /// The inputs are not among those that the model takes.
    #[error("{0}")]
    Refused(String),
    /// Out of memory, on the device or the host.
    #[error("{0}")]
    OutOfMemory(String),
}

/// Parts of libtorch's out-of-memory messages, for exceptions that the interpreter has turned into text: device or
/// page-locked memory, host memory, and memory of cuBLAS, cuDNN and similar libraries.
const OUT_OF_MEMORY: [&str; 4] = ["out of memory", "can't allocate memory", "std::bad_alloc", "_STATUS_ALLOC_FAILED"];

/// Parts of libtorch's messages about a file, each with an explanation and a remedy.
const CAUSES: [(&str, &str); 2] = [
    (
        "Unknown builtin op",
        "it calls an operator that libtorch does not have: name the library that has it in \
         model_operations.op_library_filename",
    ),
    (
        "required keyword attribute 'value' is undefined",
        "it was saved after torch.jit.optimize_for_inference, whose weights PyTorch itself does not read back: save the \
         module as it was before that, frozen or not; this runtime optimises it when it loads it",
    ),
];

/// Start of each of the interpreter's tracebacks; the message follows the last one.
const TRACEBACK: &str = "Traceback of TorchScript";

impl Fault {
    /// Calls a shim function and converts its status. `call` passes the function the place for the text of an error,
    /// which is valid for writes, and freed here.
    pub(crate) fn check(call: impl FnOnce(*mut *mut c_char) -> i32) -> Result<(), Self> {
        let mut error = ptr::null_mut();
        let status = call(&mut error);
        if status == ffi::OK {
            return Ok(());
        }
        Err(Self::of_text(status, &take(error).unwrap_or_default()))
    }

    fn of_text(status: i32, text: &str) -> Self {
        let text = reason(text);
        let no_memory = status == ffi::OUT_OF_MEMORY || OUT_OF_MEMORY.iter().any(|phrase| text.contains(phrase));
        if no_memory { Self::OutOfMemory(text) } else { Self::Raised(text) }
    }

    /// Converts the failure of a call into onnxruntime.
    pub(crate) fn of_onnx(error: OnnxError) -> Self {
        match error {
            OnnxError::Library(text) | OnnxError::Model(text) | OnnxError::Inputs(text) => Self::Refused(text),
            OnnxError::Run(text) => Self::Raised(text),
            OnnxError::OutOfMemory(text) => Self::OutOfMemory(text),
        }
    }

    /// Converts to the failure of a batch, with Triton's wording.
    pub(crate) fn of_run(self) -> ModelError {
        match self {
            Self::Raised(text) => ModelError::Failed(format!("PyTorch execute failure: {text}")),
            Self::Refused(text) => ModelError::Refused(text),
            Self::OutOfMemory(text) => ModelError::OutOfMemory(text),
        }
    }

    /// Converts to the failure to load `what`, such as a model file.
    pub(crate) fn of_load(self, what: &str) -> LoadError {
        match self {
            Self::Raised(text) | Self::Refused(text) => LoadError::File(match cause(&text) {
                Some(cause) => format!("failed to load {what}: {cause} ({text})"),
                None => format!("failed to load {what}: {text}"),
            }),
            Self::OutOfMemory(text) => LoadError::Device(format!("out of memory while loading {what}: {text}")),
        }
    }
}

/// Returns the explanation of a load failure, if libtorch's own message does not give one.
fn cause(text: &str) -> Option<&'static str> {
    let known = CAUSES.into_iter().find(|(words, _)| text.contains(words));
    known.map(|(_, cause)| cause)
}

/// Copies and frees a text that the shim allocated; `None` for null.
pub(crate) fn take(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the shim's texts are null or NUL-terminated, and this one has no other owner.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        ffi::weir_text_free(text);
        Some(copy)
    }
}

/// Extracts the message as one line, without the source code that the interpreter quotes and without a C++ backtrace.
fn reason(text: &str) -> String {
    let text = text.rfind(TRACEBACK).map_or(text, |at| message(&text[at..]));
    let text = text.split("\nException raised from").next().unwrap_or(text);
    let text = text.strip_prefix("builtins.").unwrap_or(text);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join(" ").trim().to_owned()
}

/// Returns the text from the line that starts with an exception's class; the stack frames and source lines before it
/// are left out.
fn message(traceback: &str) -> &str {
    let lines = traceback.split_inclusive('\n').skip(1);
    let mut rest = traceback.split_once('\n').map_or("", |(_, rest)| rest);
    for line in lines {
        let is_class = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "._".contains(c));
        if line.split_once(':').is_some_and(|(name, _)| is_class(name)) {
            return rest;
        }
        rest = &rest[line.len()..];
    }
    traceback
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_message_of_a_torchscript_traceback() {
        let text = "The following operation failed in the TorchScript interpreter.\n\
                    Traceback of TorchScript, serialized code (most recent call last):\n  \
                    File \"code/m.py\", line 9, in forward\n    \
                    ops.prim.RaiseException(\"no\")\n    ~~~~~~ <--- HERE\n\n\
                    Traceback of TorchScript, original code (most recent call last):\n  \
                    File \"m.py\", line 3, in forward\n    raise\n    ~~~~~ <--- HERE\n        return x\n\n\
                    builtins.ValueError: the first element\nis negative\n";
        assert_eq!(reason(text), "ValueError: the first element is negative");
    }

    #[test]
    fn skips_the_frames_of_a_traced_model() {
        let text = "Traceback of TorchScript, original code (most recent call last):\n\
                    torch/jit/_trace.py(1216): trace_module\n<stdin>(3): <module>\n\
                    RuntimeError: shape '[1, 4]' is invalid for input of size 8\n";
        assert_eq!(reason(text), "RuntimeError: shape '[1, 4]' is invalid for input of size 8");
    }

    #[test]
    fn recognises_out_of_memory_by_status_and_by_text() {
        let out_of_memory = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity";
        for (status, text) in [
            (ffi::OUT_OF_MEMORY, "any text"),
            (1, out_of_memory),
            (1, "CUDA error: out of memory"),
            (1, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            (1, "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory"),
        ] {
            assert!(matches!(Fault::of_text(status, text), Fault::OutOfMemory(_)), "{text}");
        }
        let other = "CUDA error: an illegal memory access was encountered";
        assert!(matches!(Fault::of_text(1, other), Fault::Raised(_)));
    }

    #[test]
    fn says_what_to_do_about_files_that_cannot_be_loaded() {
        let error = |text: &str| Fault::of_text(1, text).of_load("model file 'm.pt'").to_string();
        let optimised = error("required keyword attribute 'value' is undefined");
        assert!(optimised.contains("torch.jit.optimize_for_inference"), "{optimised}");
        assert!(error("Unknown builtin op: a::b.").contains("op_library_filename"));
        assert_eq!(error("other"), "failed to load model file 'm.pt': other");
    }

    #[test]
    fn drops_a_backtrace() {
        let text = "bad thing\nException raised from f at x.cpp:3 (most recent call first):\nframe";
        assert_eq!(reason(text), "bad thing");
    }
}
