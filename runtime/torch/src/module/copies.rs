//! What a module writes to when it runs, and copies of it for those that must not share that.

use std::ffi::{CStr, c_char};
use std::ptr;

use weir_runtime::backend::Device;

use super::Module;
use crate::fault::Fault;
use crate::ffi::{self, RawModule};

/// The parts of itself that a module may write to when it runs; with the reason to think so, in words that follow
/// "because".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SelfWrites {
    /// None: any number of threads may run it at once, and every run is like the first.
    Nothing,
    /// Attributes, of which a copy has its own.
    Attributes(String),
    /// Tensors in its code, which a copy would share.
    Constants(String),
}

impl SelfWrites {
    /// Why it is thought to write to itself; `None` if it does not.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::Attributes(reason) | Self::Constants(reason) => Some(reason),
        }
    }
}

/// Bytes of the largest module of a GPU that is copied to the processor: a pod of a GPU has some GiB of its own
/// memory, and one that takes more is killed. A run of a row of larger models would also take seconds there.
const LARGEST_ON_PROCESSOR: u64 = 2 << 30;

impl Module {
    /// What a run of it may change in it.
    pub(crate) fn self_writes(&self) -> &SelfWrites {
        &self.writes
    }

    /// Bytes of its parameters, buffers and other tensors.
    pub(crate) fn bytes(&self) -> Result<u64, Fault> {
        let (mut bytes, mut error) = (0, ptr::null_mut());
        // SAFETY: the module is alive, and both results are valid for writes.
        let status = unsafe { ffi::weir_module_bytes(self.raw, &mut bytes, &mut error) };
        Fault::check(status, error)?;
        Ok(bytes)
    }

    /// Makes a module whose runs change nothing in this one, which must not run meanwhile: a copy of it as it is,
    /// which shares the compiled code, or one from its file if it writes to that code.
    pub(crate) fn copy(&self) -> Result<Self, Fault> {
        match self.writes {
            SelfWrites::Nothing | SelfWrites::Attributes(_) => self.deep_copy(),
            SelfWrites::Constants(_) => Self::load(&self.path, self.device, &self.method),
        }
    }

    /// Checks whether the code names a CUDA device, so that it needs one wherever the module is.
    pub(crate) fn names_cuda(&self) -> bool {
        // SAFETY: the module is alive.
        unsafe { ffi::weir_module_names_cuda(self.raw) != 0 }
    }

    /// Loads the file again for the processor, whatever device this module is on.
    ///
    /// # Errors
    /// The reason, in words that follow "because": there is no room for it, or it would use a GPU all the same.
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

    fn deep_copy(&self) -> Result<Self, Fault> {
        let (mut raw, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the module is alive, and both results are valid for writes.
        let status = unsafe { ffi::weir_module_copy(self.raw, &mut raw, &mut error) };
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
}

/// Asks the shim what the module may write to.
pub(super) fn self_writes(module: *const RawModule) -> SelfWrites {
    let mut place: *const c_char = ptr::null();
    // SAFETY: the module is alive, and so is its text, which is NUL-terminated and copied at once.
    let (writes, reason) = unsafe {
        let writes = ffi::weir_module_writes(module, &mut place);
        (writes, CStr::from_ptr(place).to_string_lossy().into_owned())
    };
    // The numbers of `WeirWrites`.
    match writes {
        0 => SelfWrites::Nothing,
        1 => SelfWrites::Attributes(reason),
        _ => SelfWrites::Constants(reason),
    }
}
