//! Builds jobs from the samples of `model_warmup`.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use weir_protocol::{DataType, Delivery, InferRequest, Input, Parameters, Shape, Source};

use crate::backend::LoadError;
use crate::config::{MAX_WARMUP_BYTES, Warmup, WarmupData, WarmupInput};
use crate::engine::Sample;
use crate::interface::Interface;
use crate::request::NoSharedMemory;
use crate::small_file;

/// Name of the folder of input files, next to the version directories.
const FOLDER: &str = "warmup";

/// Turns a sample into a job, validated like a client's request.
pub(super) fn sample(warmup: &Warmup, interface: &Interface, model_dir: &Path) -> Result<Sample, LoadError> {
    let failed = |what: String| LoadError::Warmup(format!("warm-up sample '{}' {what}", warmup.name));
    let mut inputs = Vec::with_capacity(warmup.inputs.len());
    for (name, input) in &warmup.inputs {
        let input = self::input(name, input, warmup.batch_size, model_dir);
        inputs.push(input.map_err(|what| failed(format!("has input '{name}' {what}")))?);
    }
    let request = InferRequest {
        model: interface.model.clone(),
        version: String::new(),
        id: String::new(),
        parameters: Parameters::new(),
        inputs,
        outputs: Vec::new(),
        default_delivery: Delivery::Binary,
    };
    let accepted = interface
        .accept(request, &NoSharedMemory)
        .map_err(|error| failed(format!("does not fit the model: {error}")))?;
    Ok(Sample { name: warmup.name.clone(), count: warmup.count, job: Arc::new(accepted.job) })
}

fn input(name: &str, given: &WarmupInput, batch_size: usize, model_dir: &Path) -> Result<Input, String> {
    let rows = (batch_size > 0).then_some(batch_size as i64);
    let dims: Vec<i64> = rows.into_iter().chain(given.shape.signed()).collect();
    let shape = Shape::new(&dims).map_err(|error| error.to_string())?;
    let row = row(given, model_dir)?;
    let data = Bytes::from(row.repeat(batch_size.max(1)));
    let source = Source::Inline(data);
    Ok(Input { name: name.to_owned(), datatype: given.datatype, shape, source })
}

fn row(given: &WarmupInput, model_dir: &Path) -> Result<Vec<u8>, String> {
    // An empty string takes four zero bytes, which are its length.
    let size = given.shape.elements() * given.datatype.size().unwrap_or(4);
    match &given.data {
        WarmupData::Zero => Ok(vec![0; size]),
        WarmupData::Random => Ok(random(given.datatype, given.shape.elements())),
        WarmupData::File(file) => {
            let path = model_dir.join(FOLDER).join(file);
            small_file::read(&path, MAX_WARMUP_BYTES).map_err(|error| format!("from '{}': {error}", path.display()))
        }
    }
}

/// Returns varied values that are valid for every datatype: 0 or 1 per element. True randomness could make a load fail
/// on one machine and not on another.
fn random(datatype: DataType, elements: usize) -> Vec<u8> {
    let one: &[u8] = match datatype {
        DataType::Bool | DataType::Uint8 | DataType::Int8 => &[1],
        DataType::Uint16 | DataType::Int16 => &[1, 0],
        DataType::Fp16 => &[0, 0x3c],
        DataType::Bf16 => &[0x80, 0x3f],
        DataType::Uint32 | DataType::Int32 => &[1, 0, 0, 0],
        DataType::Fp32 => &[0, 0, 0x80, 0x3f],
        DataType::Uint64 | DataType::Int64 => &[1, 0, 0, 0, 0, 0, 0, 0],
        DataType::Fp64 => &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
        DataType::Bytes => &[1, 0, 0, 0, b'1'],
    };
    let zero = vec![0; datatype.size().unwrap_or(4)];
    (0..elements).flat_map(|i| if i % 3 == 0 { one } else { &zero[..] }).copied().collect()
}
