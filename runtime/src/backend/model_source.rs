//! The files of a model version, and the part of its configuration that backends read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_protocol::{DataType, Tensor, TensorSpec};

use super::{Device, RequestTensor};

/// A model version's files and configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelSource {
    /// Name of the model in the repository.
    pub name: String,
    /// Number of the version directory.
    pub version: u64,
    /// The model file; the directory for backends that need no file.
    pub path: PathBuf,
    /// Configured inputs, without the batch dimension; empty if none are configured.
    pub inputs: Vec<TensorConfig>,
    /// Configured outputs; the rules for `inputs` apply.
    pub outputs: Vec<TensorConfig>,
    /// The configured largest batch; 0 for a model without a batch dimension, `None` if the backend may find it out.
    pub max_batch_size: Option<usize>,
    /// `parameters` of the configuration, from key to string value.
    pub parameters: BTreeMap<String, String>,
    /// Libraries with operators that the model calls, to be opened before the model.
    pub op_libraries: Vec<PathBuf>,
    /// The devices of the model's instances.
    pub devices: Vec<Device>,
    /// Inputs of a request that the model answers, if an example file has one. Not serialised.
    #[serde(skip)]
    pub example: Option<Vec<Tensor>>,
    /// Samples of `model_warmup`. Not serialised.
    #[serde(skip)]
    pub samples: Vec<WarmUpSample>,
    /// Padding buckets of the configuration, ascending; empty if requests are not padded.
    pub buckets: Vec<usize>,
    /// Handling of a configuration that contradicts the model.
    pub warm_up_failures: WarmUpFailures,
    /// Operators that the model may call although their operands are not checked.
    pub unguarded_operators: UnguardedOperators,
    /// Permission to load code. The backend applies it to the bytes that it loads, because the file may have changed
    /// since [`Backend::code_in`](super::Backend::code_in) examined it.
    pub code: ModelCode,
}

/// One tensor of a model's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorConfig {
    /// Name of the input or output.
    pub name: String,
    /// Datatype of the elements.
    #[serde(with = "datatype_name")]
    pub datatype: DataType,
    /// Shape that clients send, without the batch dimension; -1 means any size.
    pub dims: Vec<i64>,
    /// Shape that the model takes instead of `dims`, if `reshape` is configured.
    pub reshape: Option<Vec<i64>>,
    /// True if clients may leave the input out.
    pub optional: bool,
}

impl ModelSource {
    /// Returns the source of a model without a configuration, for an instance on the CPU.
    #[must_use]
    pub fn bare(name: &str, path: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            version: 1,
            path,
            inputs: Vec::new(),
            outputs: Vec::new(),
            max_batch_size: None,
            parameters: BTreeMap::new(),
            op_libraries: Vec::new(),
            devices: vec![Device::Cpu],
            example: None,
            samples: Vec::new(),
            buckets: Vec::new(),
            warm_up_failures: WarmUpFailures::Refuse,
            unguarded_operators: UnguardedOperators::Only(Vec::new()),
            code: ModelCode::Allow,
        }
    }
}

/// Sample of `model_warmup`: a request from the configuration that the server runs before the model is ready.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmUpSample {
    /// Name of the sample in the configuration.
    pub name: String,
    /// Names and contents of the sample's inputs, with all rows.
    pub inputs: Vec<(String, RequestTensor)>,
}

/// Handling of a model whose warm-up shows that it contradicts its configuration (`--warm-up-failures`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WarmUpFailures {
    /// The load fails, because every request would fail too.
    Refuse,
    /// The model is served, and the log shows the reason.
    Allow,
}

/// Permission to load models that contain code (`--model-code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelCode {
    /// Every model is loaded.
    Allow,
    /// Only models whose files are data are loaded: the model cannot do more than call known operators.
    Forbid,
}

/// Operators that a model may call although the server cannot check their operands (`--allow-unguarded-operators`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnguardedOperators {
    /// Every operator is allowed.
    All,
    /// The operators with these names, such as `aten::add`.
    Only(Vec<String>),
}

impl UnguardedOperators {
    /// Returns true if a model may call the operator with this name.
    #[must_use]
    pub fn allow(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|allowed| allowed == name),
        }
    }
}

/// Serialises datatypes by their V2 names.
mod datatype_name {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;
    use weir_protocol::DataType;

    pub(super) fn serialize<S: Serializer>(datatype: &DataType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(datatype.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DataType, D::Error> {
        let name = String::deserialize(from)?;
        DataType::parse(&name).ok_or_else(|| D::Error::custom(format!("no datatype '{name}'")))
    }
}

impl TensorConfig {
    /// Returns the configuration of a tensor that every request has, in the shape that the model takes.
    #[must_use]
    pub fn new(name: impl Into<String>, datatype: DataType, dims: impl Into<Vec<i64>>) -> Self {
        Self { name: name.into(), datatype, dims: dims.into(), reshape: None, optional: false }
    }

    /// Returns the tensor as metadata shows it: with -1 as first dimension if the model batches.
    #[must_use]
    pub fn spec(&self, max_batch_size: usize) -> TensorSpec {
        let batch = (max_batch_size > 0).then_some(-1);
        TensorSpec {
            name: self.name.clone(),
            datatype: self.datatype,
            shape: batch.into_iter().chain(self.dims.iter().copied()).collect(),
        }
    }
}
