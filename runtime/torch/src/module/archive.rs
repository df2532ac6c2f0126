//! The directory of a model file's zip archive, without the contents of its records.

use std::path::Path;

use super::raw::c_path;
use crate::libtorch::fault::Fault;
use crate::libtorch::ffi;

/// The properties of an archive, read from its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Archive {
    /// Sum of the records' unpacked sizes, in bytes.
    pub(crate) unpacked: u64,
    /// True if the archive has TorchScript's records, not only tensors.
    pub(crate) is_script: bool,
}

impl Archive {
    /// Reads the directory of a zip archive, but none of its records.
    pub(crate) fn inspect(path: &Path) -> Result<Self, Fault> {
        let path = c_path(path)?;
        let (mut unpacked, mut is_script) = (0, 0);
        // SAFETY: `path` is NUL-terminated, and the results are valid for writes.
        Fault::check(|error| unsafe {
            ffi::weir_archive_inspect(path.as_ptr(), &mut unpacked, &mut is_script, error)
        })?;
        Ok(Self { unpacked, is_script: is_script != 0 })
    }
}
