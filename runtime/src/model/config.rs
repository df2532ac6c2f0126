//! A model's configuration: Triton's `config.pbtxt` or its JSON form, completed and validated.
//!
//! ```text
//!   text ─┐
//!   JSON ─┼─► proto ──refuse──► ──normalise──► ──parse──► ModelConfig ──complete(signature)──► ModelConfig
//!   none ─┘
//! ```
//!
//! The whole schema is parsed. Fields that Weir does not support are refused by name, unless ignoring them affects only
//! speed; `docs/model-configuration.md` has the decision for each field.

mod batching;
mod brackets;
mod error;
mod instances;
mod json;
mod metric_tags;
mod normalise;
mod padding;
mod refuse;
mod schema;
mod tensors;
mod text;
mod versions;
mod warmup;

use std::collections::BTreeMap;

use weir_protocol::grpc::proto;

use crate::backend::{Signature, TensorConfig};
use crate::model::padding::Padding;

pub(crate) use batching::DynamicBatching;
pub(crate) use error::ConfigError;
pub(crate) use instances::InstanceGroup;
pub(crate) use json::to_json;
pub(crate) use versions::VersionPolicy;
pub(crate) use warmup::{MAX_WARMUP_BYTES, Warmup, WarmupData, WarmupInput};

/// Limit in bytes on a configuration, which bounds the cost of parsing: an element of a list takes three bytes of JSON,
/// and hundreds of bytes of memory. Real configurations have a few kilobytes.
const MAX_BYTES: usize = 1 << 20;

/// A valid configuration. All other fields are derived from `proto`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelConfig {
    /// The configuration with its defaults filled in, as the config endpoint returns it.
    pub proto: proto::ModelConfig,
    /// The model's name: from the configuration, otherwise from the [`Origin`].
    pub name: String,
    /// The backend, as one of [`crate::backend::Backend::names`].
    pub backend: String,
    /// Name of the model file in a version directory; `None` means the backend's default.
    pub default_model_filename: Option<String>,
    pub version_policy: VersionPolicy,
    /// The largest batch in rows; 0 for a model without a batch dimension. `None` until [`complete`](Self::complete) if
    /// the configuration has neither this field nor inputs and outputs.
    pub max_batch_size: Option<usize>,
    /// The model's inputs; empty until [`complete`](Self::complete) if not configured.
    pub inputs: Vec<TensorConfig>,
    /// The model's outputs; empty until [`complete`](Self::complete) if not configured.
    pub outputs: Vec<TensorConfig>,
    /// From output name to the file with its class names, relative to the model's directory.
    pub label_filenames: BTreeMap<String, String>,
    /// Devices and numbers of the model's instances; at least one group.
    pub instance_groups: Vec<InstanceGroup>,
    /// `dynamic_batching`, if the configuration has it.
    pub batching: Option<DynamicBatching>,
    /// Requests to run before the model is ready.
    pub warmups: Vec<Warmup>,
    /// Settings for the backend, without Weir's own.
    pub parameters: BTreeMap<String, String>,
    /// Labels for the model's metrics.
    pub metric_tags: BTreeMap<String, String>,
    /// Lengths to pad requests to, if configured.
    pub padding: Option<Padding>,
}

/// Inputs and outputs, validated or inferred.
struct Tensors {
    inputs: Vec<TensorConfig>,
    outputs: Vec<TensorConfig>,
}

impl Tensors {
    fn configured(proto: &proto::ModelConfig, max_batch_size: Option<usize>) -> Result<Self, ConfigError> {
        Ok(Self { inputs: tensors::inputs(proto, max_batch_size)?, outputs: tensors::outputs(proto, max_batch_size)? })
    }
}

/// Facts about a configuration that are not in its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// The model's name if the configuration has none.
    pub(crate) model: &'a str,
    /// Name of the text for errors, such as its path.
    pub file: &'a str,
    /// The backend if the configuration has none, guessed from the model's files.
    pub backend: Option<&'a str>,
}

impl ModelConfig {
    /// Parses a `config.pbtxt`; an empty text means that the model has none.
    ///
    /// # Errors
    /// [`ConfigError`] with line and column for a syntax error, with Triton's sentence for a wrong value, and with the
    /// field's name for an unsupported field.
    pub(crate) fn from_text(text: &str, origin: Origin<'_>) -> Result<Self, ConfigError> {
        check_size(text, origin)?;
        Self::given(text::parse(text, origin.file)?, origin)
    }

    /// Parses the JSON form, which load requests use.
    ///
    /// # Errors
    /// [`ConfigError`], as from [`ModelConfig::from_text`].
    pub(crate) fn from_json(json: &str, origin: Origin<'_>) -> Result<Self, ConfigError> {
        check_size(json, origin)?;
        Self::given(json::parse(json, origin.file)?, origin)
    }

    /// Fills in inputs, outputs and largest batch from the model's signature if they are not configured.
    ///
    /// # Errors
    /// [`ConfigError`] if the rest of the configuration does not fit the signature, such as a preferred batch size over
    /// the largest batch.
    pub(crate) fn complete(self, signature: &Signature) -> Result<Self, ConfigError> {
        let mut proto = self.proto;
        let max_batch_size = self.max_batch_size.unwrap_or(signature.max_batch_size);
        proto.max_batch_size = i32::try_from(max_batch_size).unwrap_or(i32::MAX);
        let configured = Tensors::configured(&proto, Some(max_batch_size))?;
        let mut tensors = configured;
        // Inferred tensors are not validated, because they may be scalars, which a configuration cannot express.
        if proto.input.is_empty() {
            proto.input = signature.inputs.iter().map(tensors::input).collect();
            tensors.inputs.clone_from(&signature.inputs);
        }
        if proto.output.is_empty() {
            proto.output = signature.outputs.iter().map(tensors::output).collect();
            tensors.outputs.clone_from(&signature.outputs);
        }
        Self::assembled(proto, Some(max_batch_size), tensors)
    }

    /// Chooses between GPU and CPU if the configuration does not, given the indices of the usable GPUs.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration requires a GPU that cannot be used.
    pub(crate) fn place(self, gpus: &[usize]) -> Result<Self, ConfigError> {
        let mut proto = self.proto;
        instances::place(&mut proto, gpus)?;
        Self::checked(proto, self.max_batch_size)
    }

    /// Refuses a model whose name differs from the name of its directory.
    ///
    /// # Errors
    /// [`ConfigError`] if the names differ.
    pub(crate) fn check_directory(&self, directory: &str) -> Result<(), ConfigError> {
        if self.name == directory {
            return Ok(());
        }
        Err(ConfigError::Invalid(format!(
            "unexpected directory name '{directory}' for model '{}', directory name must equal \
             model name",
            self.name
        )))
    }

    fn given(mut proto: proto::ModelConfig, origin: Origin<'_>) -> Result<Self, ConfigError> {
        normalise::identity(&mut proto, origin)?;
        let max_batch_size = tensors::max_batch_size(&proto)?;
        Self::checked(proto, max_batch_size)
    }

    fn checked(proto: proto::ModelConfig, max_batch_size: Option<usize>) -> Result<Self, ConfigError> {
        refuse::check(&proto)?;
        normalise::check_pair(&proto)?;
        normalise::op_libraries(&proto)?;
        let tensors = Tensors::configured(&proto, max_batch_size)?;
        Self::assembled(proto, max_batch_size, tensors)
    }

    fn assembled(
        mut proto: proto::ModelConfig,
        max_batch_size: Option<usize>,
        Tensors { inputs, outputs }: Tensors,
    ) -> Result<Self, ConfigError> {
        normalise::defaults(&mut proto, max_batch_size);
        Ok(Self {
            name: proto.name.clone(),
            backend: proto.backend.clone(),
            default_model_filename: normalise::filename(&proto)?,
            version_policy: versions::parse(&proto)?,
            max_batch_size,
            outputs,
            label_filenames: tensors::label_filenames(&proto)?,
            instance_groups: instances::parse(&proto)?,
            batching: batching::parse(&proto, max_batch_size)?,
            warmups: warmup::parse(&proto, &inputs, max_batch_size)?,
            parameters: padding::backend_parameters(&proto),
            metric_tags: metric_tags::parse(&proto)?,
            padding: padding::parse(&proto, &inputs)?,
            inputs,
            proto,
        })
    }
}

/// Refuses a text that is too large to be parsed.
fn check_size(text: &str, origin: Origin<'_>) -> Result<(), ConfigError> {
    if text.len() <= MAX_BYTES {
        return Ok(());
    }
    let message = format!("larger than {MAX_BYTES} bytes");
    Err(ConfigError::Syntax { file: origin.file.to_owned(), at: String::new(), message })
}

#[cfg(test)]
mod tests;
