//! The description of a model file that `weir-runtime inspect` prints.

use serde::Serialize;
use weir_protocol::TensorSpec;

/// Description of a model file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// Format of the file, such as `TorchScript`.
    pub format: &'static str,
    /// The torch that wrote the file, such as `2.11.0`; `None` if the file does not contain the version.
    pub torch_version: Option<String>,
    /// Inputs as requests send them, with -1 for a variable size.
    pub inputs: Vec<InspectedTensor>,
    /// Outputs as responses have them.
    pub outputs: Vec<InspectedTensor>,
    /// The largest batch in rows; 0 if each request runs by itself.
    pub max_batch_size: usize,
    /// The reason for `max_batch_size`, such as the operator that mixes rows.
    pub batching: String,
    /// Number of elements of all weights.
    pub parameters: u64,
    /// Size of all weights in bytes.
    pub bytes: u64,
    /// True if loading the file loads code, which `--model-code=forbid` refuses.
    pub is_code: bool,
    /// Further findings, such as a handler that does not run.
    pub notes: Vec<String>,
}

/// Description of an input or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InspectedTensor {
    /// Name in requests and responses.
    pub name: String,
    /// Name of the datatype in V2.
    pub datatype: &'static str,
    /// Sizes; -1 is a variable one.
    pub shape: Vec<i64>,
}

impl Inspection {
    /// Returns tensors in the form of a description.
    #[must_use]
    pub fn tensors(specs: impl Iterator<Item = TensorSpec>) -> Vec<InspectedTensor> {
        specs
            .map(|spec| InspectedTensor { name: spec.name, datatype: spec.datatype.name(), shape: spec.shape })
            .collect()
    }
}
