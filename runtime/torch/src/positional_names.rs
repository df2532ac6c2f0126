//! Triton's names for tensors by position: `NAME__INDEX`.

use weir_runtime::backend::TensorConfig;

/// Reads indices off names like `NAME__INDEX`, if all are like that.
pub(crate) fn by_index(tensors: &[TensorConfig]) -> Option<Vec<usize>> {
    let index = |tensor: &TensorConfig| suffix(&tensor.name)?.parse().ok();
    tensors.iter().map(index).collect()
}

/// Returns what follows the last two underscores of a name.
pub(crate) fn suffix(name: &str) -> Option<&str> {
    name.rsplit_once("__").map(|(_, suffix)| suffix)
}
