//! The field `model_warmup` of a configuration: requests to run before a model is ready.

use std::collections::BTreeMap;

use weir_protocol::grpc::proto::model_warmup::input::InputDataType;
use weir_protocol::grpc::proto::{ModelConfig, ModelWarmup, model_warmup};
use weir_protocol::{DataType, Shape};

use super::normalise::check_inside;
use super::{ConfigError, tensors};
use crate::backend::TensorConfig;

/// A request to run before the model is ready.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Warmup {
    /// Name of the request for error texts.
    pub name: String,
    /// Number of rows; 0 for a model without a batch dimension.
    pub batch_size: usize,
    /// Number of runs; at least 1.
    pub count: usize,
    pub inputs: BTreeMap<String, WarmupInput>,
}

/// One input of a warm-up request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WarmupInput {
    pub datatype: DataType,
    /// Dimensions without the batch dimension.
    pub shape: Shape,
    pub data: WarmupData,
}

/// Contents of a warm-up input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WarmupData {
    /// Zeros; empty strings for BYTES.
    Zero,
    Random,
    /// The bytes of one row, from this file in the model's `warmup` directory.
    File(String),
}

/// Limit on the runs in all warm-up requests of a model. A few runs are enough to warm up, and this many take ten
/// seconds for a model that runs in a millisecond. Without a limit, a load could keep an instance busy forever.
const MAX_RUNS: u64 = 10_000;

fn check_runs(config: &ModelConfig) -> Result<(), ConfigError> {
    let runs: u64 = config.model_warmup.iter().map(|given| u64::from(given.count.max(1))).sum();
    if runs > MAX_RUNS {
        return Err(ConfigError::Invalid(format!(
            "model {} has {runs} runs in its warm-ups, which is over {MAX_RUNS}: lower their count",
            config.name
        )));
    }
    Ok(())
}

/// Limit in bytes on an input with all its rows, and on the inputs of all samples of a model, which are in memory
/// together. A client's request of that size would be refused, and larger inputs would take the memory of other models.
pub(crate) const MAX_WARMUP_BYTES: u64 = 1 << 30;

/// Parses the warm-up requests.
pub(super) fn parse(
    config: &ModelConfig,
    inputs: &[TensorConfig],
    max_batch_size: Option<usize>,
) -> Result<Vec<Warmup>, ConfigError> {
    check_runs(config)?;
    let mut warmups = Vec::with_capacity(config.model_warmup.len());
    for given in &config.model_warmup {
        let rows = rows(config, given, max_batch_size)?;
        let count = given.count.max(1) as usize;
        let inputs = parse_inputs(config, given, inputs)?;
        if let Some(batch_size) = rows {
            warmups.push(Warmup { name: given.name.clone(), batch_size, count, inputs });
        }
    }
    Ok(warmups)
}

/// Returns the number of rows of a sample. It is 0 for a model without a batch dimension, for which `batch_size` may be
/// 0 or 1. `None` means that the sample is skipped, as in Triton: the model has a batch dimension, and the sample's
/// `batch_size` is 0.
fn rows(
    config: &ModelConfig,
    given: &ModelWarmup,
    max_batch_size: Option<usize>,
) -> Result<Option<usize>, ConfigError> {
    match (max_batch_size, given.batch_size as usize) {
        (Some(0), 0 | 1) => Ok(Some(0)),
        (Some(_), 0) => Ok(None),
        (Some(max), rows) if rows > max => {
            let over = format!("has batch_size {rows}, which is over max_batch_size");
            Err(fail(config, given, &over))
        }
        (Some(_) | None, rows) => Ok(Some(rows)),
    }
}

fn parse_inputs(
    config: &ModelConfig,
    given: &ModelWarmup,
    known: &[TensorConfig],
) -> Result<BTreeMap<String, WarmupInput>, ConfigError> {
    if given.inputs.is_empty() {
        return Err(fail(config, given, "has no inputs"));
    }
    let mut inputs = BTreeMap::new();
    for (name, input) in &given.inputs {
        let unknown = known.iter().all(|known| known.name != *name);
        if unknown && !known.is_empty() {
            return Err(fail(config, given, &format!("has unknown input '{name}'")));
        }
        let parsed = parse_input(config, input)
            .and_then(|parsed| check_bytes(parsed, given.batch_size))
            .map_err(|what| fail(config, given, &format!("has input '{name}' {what}")))?;
        inputs.insert(name.clone(), parsed);
    }
    Ok(inputs)
}

fn parse_input(config: &ModelConfig, given: &model_warmup::Input) -> Result<WarmupInput, String> {
    let datatype = tensors::datatype(given.data_type).ok_or("without data_type")?;
    let shape = Shape::new(&given.dims).map_err(|error| format!("with bad dims: {error}"))?;
    let data = match &given.input_data_type {
        None => return Err("without zero_data, random_data or input_data_file".to_owned()),
        Some(InputDataType::ZeroData(_)) => WarmupData::Zero,
        Some(InputDataType::RandomData(_)) => WarmupData::Random,
        Some(InputDataType::InputDataFile(file)) => {
            check_inside(file, "input_data_file", config).map_err(|error| format!("with bad data: {error}"))?;
            WarmupData::File(file.clone())
        }
    };
    Ok(WarmupInput { datatype, shape, data })
}

/// Refuses an input with too many bytes, because all its rows are created in memory.
fn check_bytes(input: WarmupInput, batch_size: u32) -> Result<WarmupInput, String> {
    // A string takes at least the four bytes of its length.
    let row = input.shape.elements() as u64 * input.datatype.size().unwrap_or(4) as u64;
    let bytes = row.saturating_mul(u64::from(batch_size.max(1)));
    if bytes > MAX_WARMUP_BYTES {
        return Err(format!("of {bytes} bytes, which is over {MAX_WARMUP_BYTES}"));
    }
    Ok(input)
}

fn fail(config: &ModelConfig, given: &ModelWarmup, what: &str) -> ConfigError {
    ConfigError::Invalid(format!("warm-up '{}' of model '{}' {what}", given.name, config.name))
}
