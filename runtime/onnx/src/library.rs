//! onnxruntime's library: its place, its functions and its environment.

#![expect(unsafe_code, reason = "opens a shared library and calls its C interface")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use ort_sys::{OrtApi, OrtApiBase, OrtEnv, OrtLoggingLevel, OrtStatusPtr};

use crate::error::OnnxError;

/// Name of the library. The dynamic loader searches it like those that a program is linked with: in `LD_LIBRARY_PATH`,
/// in the program's own folders, and in the system's.
const NAME: &str = "libonnxruntime.so.1";

/// Path of the library beside the sources, for programs that run where they were built.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.onnxruntime/lib/libonnxruntime.so.1");

/// Least version of the library. The functions that this crate calls are older, but earlier versions check the place of
/// a model's external data less strictly. Later libraries still have this interface.
const API_VERSION: u32 = 31;

/// The open library, which stays open until the process ends.
pub(crate) struct Library {
    api: &'static OrtApi,
    env: *mut OrtEnv,
}

// SAFETY: the table of functions is constant, and onnxruntime allows any thread to use the environment.
unsafe impl Send for Library {}
// SAFETY: as for `Send`.
unsafe impl Sync for Library {}

/// The library once it has been opened. A failed attempt is repeated at the next load, because the library may be there
/// by then.
static LIBRARY: Mutex<Option<&'static Library>> = Mutex::new(None);

impl Library {
    /// Opens the library, unless it is open already.
    pub(crate) fn open() -> Result<&'static Self, OnnxError> {
        let mut opened = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = *opened {
            return Ok(library);
        }
        let library: &'static Self = Box::leak(Box::new(Self::load()?));
        *opened = Some(library);
        Ok(library)
    }

    fn load() -> Result<Self, OnnxError> {
        let base = base(Path::new(NAME)).or_else(|reason| base(Path::new(BUILT)).map_err(|_| reason));
        let base = base.map_err(|reason| OnnxError::Library(missing(&reason)))?;
        // SAFETY: the library's base structure is constant, and any version number may be requested.
        let api = unsafe { ((*base).GetApi)(API_VERSION).as_ref() };
        let Some(api) = api else {
            return Err(OnnxError::Library(missing("the library found is older than onnxruntime 1.31")));
        };
        let mut library = Self { api, env: ptr::null_mut() };
        // Errors are returned from each call, so the library itself logs nothing.
        let level = OrtLoggingLevel::ORT_LOGGING_LEVEL_FATAL;
        // SAFETY: the name is NUL-terminated, and the result is valid for writes.
        let status = unsafe { (api.CreateEnv)(level, c"weir".as_ptr(), &raw mut library.env) };
        library.check(status)?;
        // SAFETY: the environment was just made.
        library.check(unsafe { (api.DisableTelemetryEvents)(library.env) })?;
        Ok(library)
    }

    /// Returns the functions of the library.
    pub(crate) fn api(&self) -> &'static OrtApi {
        self.api
    }

    /// Returns the environment that sessions are made in.
    pub(crate) fn env(&self) -> *const OrtEnv {
        self.env
    }

    /// Converts the status of a call, and frees it.
    pub(crate) fn check(&self, status: OrtStatusPtr) -> Result<(), OnnxError> {
        let status = status.0;
        if status.is_null() {
            return Ok(());
        }
        // SAFETY: the status is not null and belongs to this function. The message is copied before the status is
        // freed. The code is read as a number, because a later library may have codes that the enumeration does not
        // have.
        unsafe {
            let code: unsafe extern "system" fn(*const ort_sys::OrtStatus) -> i32 =
                std::mem::transmute(self.api.GetErrorCode);
            let code = code(status);
            let text = CStr::from_ptr((self.api.GetErrorMessage)(status)).to_string_lossy().into_owned();
            (self.api.ReleaseStatus)(status);
            Err(OnnxError::of_status(code, &text))
        }
    }
}

/// Returns the sentence about a library that cannot be used.
fn missing(reason: &str) -> String {
    format!(
        "ONNX models need onnxruntime's library: run `make onnxruntime`, or copy the libonnxruntime.so of the Python \
         package onnxruntime as {NAME} beside the program or into a folder of LD_LIBRARY_PATH ({reason})"
    )
}

/// Opens the library for good and returns its entry point.
fn base(path: &Path) -> Result<*const OrtApiBase, String> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the name is NUL-terminated. The library has initialisers of its own, which may run at any time. Symbols
    // stay local, so that they do not mix with those of libtorch.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(loader_error());
    }
    // SAFETY: the handle is open, and the name is NUL-terminated.
    let entry = unsafe { libc::dlsym(handle, c"OrtGetApiBase".as_ptr()) };
    if entry.is_null() {
        return Err(format!("{} is another library than onnxruntime", path.display()));
    }
    // SAFETY: this is the type of the function in all versions of onnxruntime.
    let entry: unsafe extern "C" fn() -> *const OrtApiBase =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const OrtApiBase>(entry) };
    // SAFETY: the function takes nothing and returns a constant.
    Ok(unsafe { entry() })
}

fn loader_error() -> String {
    // SAFETY: the loader's message belongs to this thread until its next call, and is copied at once.
    unsafe {
        let text: *mut c_char = libc::dlerror();
        if text.is_null() {
            return "the loader gave no reason".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_way_to_get_it() {
        let reason = base(Path::new("/nowhere/libonnxruntime.so.1")).unwrap_err();
        let text = missing(&reason);
        assert!(text.contains("make onnxruntime") && text.contains("/nowhere"), "{text}");
        let other = base(Path::new("libm.so.6")).unwrap_err();
        assert_eq!(other, "libm.so.6 is another library than onnxruntime");
    }
}
