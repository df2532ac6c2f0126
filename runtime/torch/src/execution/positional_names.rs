//! Triton's names for tensors by position: `NAME__INDEX`.

use weir_runtime::backend::TensorConfig;

/// Parses the indices of names like `NAME__INDEX`; `None` if any name has another form.
pub(crate) fn by_index(tensors: &[TensorConfig]) -> Option<Vec<usize>> {
    let index = |tensor: &TensorConfig| suffix(&tensor.name)?.parse().ok();
    tensors.iter().map(index).collect()
}

/// Returns the part of a name after its last double underscore.
pub(crate) fn suffix(name: &str) -> Option<&str> {
    name.rsplit_once("__").map(|(_, suffix)| suffix)
}
