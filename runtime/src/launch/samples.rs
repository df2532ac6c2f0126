//! Builds jobs from the samples of `model_warmup`.

use std::path::Path;

use bytes::Bytes;
use weir_protocol::{DataType, Delivery, InferRequest, Input, Parameters, Shape, Source};

use crate::backend::{Batch, LoadError, RequestTensor, Signature, WarmUpSample};
use crate::incoming::request::NoSharedMemory;
use crate::model::config::{MAX_WARMUP_BYTES, Warmup, WarmupData, WarmupInput};
use crate::model::interface::Interface;
use crate::model::job::Job;
use crate::small_file;

/// Name of the folder of input files, next to the version directories.
const FOLDER: &str = "warmup";

/// Reads the inputs of all samples, which have at most `most` bytes together, because they stay in memory until the
/// model is ready.
pub(super) fn read(warmups: &[Warmup], model_dir: &Path, most: u64) -> Result<Vec<WarmUpSample>, LoadError> {
    let mut left = most;
    warmups.iter().map(|warmup| sample(warmup, model_dir, &mut left)).collect()
}

/// Reads the inputs of a sample, and takes their bytes from those that are left.
fn sample(warmup: &Warmup, model_dir: &Path, left: &mut u64) -> Result<WarmUpSample, LoadError> {
    let mut inputs = Vec::with_capacity(warmup.inputs.len());
    for (name, input) in &warmup.inputs {
        let part = part(input, warmup.batch_size, model_dir, left);
        let part = part.map_err(|what| failed(&warmup.name, &format!("has input '{name}' {what}")))?;
        inputs.push((name.clone(), part));
    }
    Ok(WarmUpSample { name: warmup.name.clone(), inputs })
}

/// Turns a sample into a job, checked like any client's request.
pub(super) fn job(sample: &WarmUpSample, interface: &Interface) -> Result<Job, LoadError> {
    let input = |(name, part): &(String, RequestTensor)| Input {
        name: name.clone(),
        datatype: part.datatype,
        shape: part.shape.clone(),
        source: Source::Inline(part.data.clone()),
    };
    let request = InferRequest {
        model: interface.model.clone(),
        version: String::new(),
        id: String::new(),
        parameters: Parameters::new(),
        inputs: sample.inputs.iter().map(input).collect(),
        outputs: Vec::new(),
        default_delivery: Delivery::Binary,
    };
    let accepted = interface.accept(request, &NoSharedMemory);
    let accepted = accepted.map_err(|error| failed(&sample.name, &format!("does not fit the model: {error}")))?;
    Ok(accepted.job)
}

/// Makes the batch that runs a sample, without padding.
///
/// # Errors
/// [`LoadError::Warmup`] if the sample does not fit the signature.
pub fn sample_batch(model: &str, signature: &Signature, sample: &WarmUpSample) -> Result<Batch, LoadError> {
    let interface = Interface { model: model.to_owned(), signature: signature.clone(), padding: None };
    let job = job(sample, &interface)?;
    let batch = interface.gather(std::slice::from_ref(&job));
    batch.map_err(|error| failed(&sample.name, &format!("does not fit the model: {error}")))
}

fn failed(sample: &str, what: &str) -> LoadError {
    LoadError::Warmup(format!("warm-up sample '{sample}' {what}"))
}

fn part(given: &WarmupInput, batch_size: usize, model_dir: &Path, left: &mut u64) -> Result<RequestTensor, String> {
    let rows = (batch_size > 0).then_some(batch_size as i64);
    let dims: Vec<i64> = rows.into_iter().chain(given.shape.signed()).collect();
    let shape = Shape::new(&dims).map_err(|error| error.to_string())?;
    let row = row(given, model_dir, *left / batch_size.max(1) as u64)?;
    let data = row.repeat(batch_size.max(1));
    *left = left.saturating_sub(data.len() as u64);
    Ok(RequestTensor { shape, datatype: given.datatype, data: Bytes::from(data) })
}

/// Returns a row of at most `most` bytes.
fn row(given: &WarmupInput, model_dir: &Path, most: u64) -> Result<Vec<u8>, String> {
    // An empty string takes four zero bytes, which are its length.
    let size = given.shape.elements() * given.datatype.size().unwrap_or(4);
    if size as u64 > most {
        return Err(format!("with which the inputs of all samples have more than {MAX_WARMUP_BYTES} bytes"));
    }
    match &given.data {
        WarmupData::Zero => Ok(vec![0; size]),
        WarmupData::Random => Ok(random(given.datatype, given.shape.elements())),
        WarmupData::File(file) => {
            let path = model_dir.join(FOLDER).join(file);
            small_file::read(&path, most).map_err(|error| format!("from '{}': {error}", path.display()))
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A sample with one input of eight bytes in each row, or more from a file.
    fn warmup(batch_size: usize, data: WarmupData) -> Warmup {
        let datatype = if matches!(data, WarmupData::File(_)) { DataType::Bytes } else { DataType::Fp32 };
        let input = WarmupInput { datatype, shape: Shape::new(&[2]).unwrap(), data };
        Warmup { name: "w".to_owned(), batch_size, count: 1, inputs: [("x".to_owned(), input)].into() }
    }

    #[test]
    fn the_inputs_of_all_samples_share_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(FOLDER)).unwrap();
        fs::write(folder.path().join(FOLDER).join("x"), [0; 16]).unwrap();
        let file = || WarmupData::File("x".to_owned());
        let read = |warmups: &[Warmup]| super::read(warmups, folder.path(), 40).map_err(|error| error.to_string());
        let fitting = read(&[warmup(3, WarmupData::Zero), warmup(0, file())]).unwrap();
        assert_eq!(fitting.iter().map(|sample| sample.inputs[0].1.data.len()).collect::<Vec<_>>(), [24, 16]);
        let error = read(&[warmup(3, WarmupData::Zero), warmup(3, WarmupData::Random)]).unwrap_err();
        assert!(error.ends_with("with which the inputs of all samples have more than 1073741824 bytes"), "{error}");
        let error = read(&[warmup(2, file()), warmup(1, file())]).unwrap_err();
        assert!(error.ends_with("it is larger than 8 bytes"), "{error}");
        assert!(read(&[warmup(3, file())]).is_err());
    }
}
