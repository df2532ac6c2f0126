//! The state that a module writes to when it runs, and copies of modules that must not share such state.

use std::ffi::{CStr, c_char};
use std::ptr;

use weir_runtime::backend::Device;

use super::{Code, Module};
use crate::libtorch::fault::Fault;
use crate::libtorch::ffi::{self, RawModule};
use crate::libtorch::process;

/// The parts of itself that a module may write to when it runs, each with the evidence, in words that follow "because".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SelfWrites {
    /// No state is written: any number of threads may run the module at once, and every run is like the first.
    Nothing,
    /// Attributes are written. A copy of the module has its own.
    Attributes(String),
    /// Tensors in the code are written. A copy of the module would share them.
    Constants(String),
}

impl SelfWrites {
    /// Returns the evidence that the module writes to itself; `None` if it does not.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::Attributes(reason) | Self::Constants(reason) => Some(reason),
        }
    }
}

/// Largest module on a GPU that is copied to the CPU, in bytes. A pod with a GPU has only some GiB of host memory, and
/// is killed if it takes more. A run of one row of a larger model would also take seconds on the CPU.
const LARGEST_ON_PROCESSOR: u64 = 2 << 30;

impl Module {
    /// Returns the state of the module that a run may change.
    pub(crate) fn self_writes(&self) -> &SelfWrites {
        &self.writes
    }

    /// Returns the bytes of the module's parameters, buffers and other tensors.
    pub(crate) fn bytes(&self) -> Result<u64, Fault> {
        let raw = match &self.code {
            Code::Script(raw) => *raw,
            Code::Exported(exported) => return Ok(exported.bytes()),
            Code::Compiled(compiled) => return Ok(compiled.bytes),
            Code::Onnx(onnx) => return Ok(onnx.bytes),
        };
        let mut bytes = 0;
        // SAFETY: the module is alive, and both results are valid for writes.
        Fault::check(|error| unsafe { ffi::weir_module_bytes(raw, &mut bytes, error) })?;
        Ok(bytes)
    }

    /// Makes a module whose runs change nothing in this one, which must not run meanwhile. It is a copy in the current
    /// state that shares the compiled code, or is loaded from the file if runs write to constants of that code.
    pub(crate) fn copy(&self) -> Result<Self, Fault> {
        match (&self.code, &self.writes) {
            (Code::Script(raw), SelfWrites::Nothing | SelfWrites::Attributes(_)) => self.deep_copy(*raw),
            (Code::Compiled(compiled), _) => Self::load_compiled(&self.path, self.device, compiled.runs),
            (Code::Script(_), SelfWrites::Constants(_)) | (Code::Exported(_) | Code::Onnx(_), _) => {
                Self::load(&self.path, self.device, &self.method)
            }
        }
    }

    /// Returns true if the code names a CUDA device, so that the module needs one even if its weights are on the CPU.
    pub(crate) fn names_cuda(&self) -> bool {
        match &self.code {
            // SAFETY: the module is alive.
            Code::Script(raw) => unsafe { ffi::weir_module_names_cuda(*raw) != 0 },
            Code::Exported(_) | Code::Compiled(_) | Code::Onnx(_) => false,
        }
    }

    /// Loads the file again for the CPU, regardless of this module's device.
    ///
    /// # Errors
    /// The reason, in words that follow "because": the module is too large, it names a CUDA device, or it does not
    /// load.
    pub(crate) fn on_processor(&self) -> Result<Self, String> {
        let bytes = self.bytes().map_err(|fault| fault.to_string())?;
        if bytes > LARGEST_ON_PROCESSOR {
            return Err(format!("a copy of its {bytes} bytes might not fit into the memory beside the GPU"));
        }
        if self.names_cuda() {
            return Err("its code names a CUDA device".to_owned());
        }
        Self::load(&self.path, Device::Cpu, &self.method).map_err(|fault| fault.to_string())
    }

    fn deep_copy(&self, module: *const RawModule) -> Result<Self, Fault> {
        let mut raw = ptr::null_mut();
        // SAFETY: the module is alive, and both results are valid for writes.
        Fault::check(|error| unsafe { ffi::weir_module_copy(module, &mut raw, error) })?;
        let code = Code::Script(raw);
        process::synchronize(self.device)?;
        Ok(self.with_code(code))
    }
}

/// Returns the state that the module may write to, as the shim finds it in the code.
pub(super) fn self_writes(module: *const RawModule) -> SelfWrites {
    let mut place: *const c_char = ptr::null();
    // SAFETY: the module is alive, and so is the text, which is NUL-terminated and copied at once.
    let (writes, reason) = unsafe {
        let writes = ffi::weir_module_writes(module, &mut place);
        (writes, CStr::from_ptr(place).to_string_lossy().into_owned())
    };
    // These are the numbers of `WeirWrites`.
    match writes {
        0 => SelfWrites::Nothing,
        1 => SelfWrites::Attributes(reason),
        _ => SelfWrites::Constants(reason),
    }
}
