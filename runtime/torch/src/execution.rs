//! One run of a model: inputs are bound, the module runs, outputs are named.

pub(crate) mod binding;
pub(crate) mod cuda_streams;
pub(crate) mod graph_trial;
pub(crate) mod graphs;
pub(crate) mod instance;
pub(crate) mod outputs;
pub(crate) mod runner;
pub(crate) mod stream_pairs;

use weir_runtime::backend::TensorConfig;

/// Parses the indices of names like `NAME__INDEX`, Triton's names for tensors by position; `None` if any name has another form.
pub(crate) fn by_index(tensors: &[TensorConfig]) -> Option<Vec<usize>> {
    let index = |tensor: &TensorConfig| suffix(&tensor.name)?.parse().ok();
    tensors.iter().map(index).collect()
}

/// Returns the part of a name after its last double underscore.
pub(crate) fn suffix(name: &str) -> Option<&str> {
    name.rsplit_once("__").map(|(_, suffix)| suffix)
}
