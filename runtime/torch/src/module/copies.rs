//! What a module writes to when it runs, and copies of it for those that must not share that.

use std::ffi::{CStr, c_char};
use std::ptr;

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
