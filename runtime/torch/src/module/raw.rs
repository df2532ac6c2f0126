//! Conversion of texts and arrays between Rust and C.

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::libtorch::fault::Fault;

pub(super) fn c_path(path: &Path) -> Result<CString, Fault> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Fault::Raised(format!("the path {path:?} contains a NUL byte")))
}

pub(super) fn c_text(text: &str) -> Result<CString, Fault> {
    CString::new(text).map_err(|_| Fault::Raised(format!("{text:?} contains a NUL byte")))
}

/// Copies a C text; `None` for null.
///
/// # Safety
/// A text that is not null must be alive and NUL-terminated.
pub(super) unsafe fn text(raw: *const c_char) -> Option<String> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees that the text is alive and NUL-terminated.
    Some(unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned())
}

/// # Safety
/// `first` must point to `count` live elements, unless `count` is 0.
pub(super) unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees that `count` elements are alive.
    unsafe { std::slice::from_raw_parts(first, count) }
}
