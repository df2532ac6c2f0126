//! Decodes a gRPC request.

use std::collections::HashSet;

use bytes::Bytes;

use super::contents::{self, ContentsError};
use super::proto::ModelInferRequest;
use super::proto::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use super::{GrpcError, parameters};
use crate::{DataType, Delivery, InferRequest, Input, RequestedOutput, Shape, Source};

/// Decodes a request. Raw contents are moved, never copied.
///
/// An input without shared memory and without typed contents takes the next entry of `raw_input_contents`; an input in
/// shared memory takes none. Surplus entries are ignored, as in Triton.
///
/// # Errors
/// [`GrpcError`], which names the wrong input, output or parameter.
pub fn decode_request(given: ModelInferRequest) -> Result<InferRequest, GrpcError> {
    let ModelInferRequest { model_name, model_version, id, parameters, inputs, outputs, raw_input_contents } = given;
    let raw = RawContents { present: !raw_input_contents.is_empty(), rest: raw_input_contents.into_iter() };
    Ok(InferRequest {
        version: decode_version(&model_version)?,
        parameters: parameters::decode_parameters(parameters)?,
        inputs: decode_inputs(&model_name, inputs, raw)?,
        outputs: decode_outputs(outputs)?,
        default_delivery: Delivery::Binary,
        model: model_name,
        id,
    })
}

/// Decodes the version that a call names, to its decimal form. Empty means the newest version, and so does -1, as in
/// Triton.
///
/// # Errors
/// [`GrpcError::Version`] if the text is not a number, or is a negative number other than -1.
pub fn decode_version(given: &str) -> Result<String, GrpcError> {
    if given.is_empty() {
        return Ok(String::new());
    }
    match given.parse::<i64>() {
        Ok(-1) => Ok(String::new()),
        Ok(version) if version >= 0 => Ok(version.to_string()),
        Ok(_) | Err(_) => Err(GrpcError::Version(given.to_owned())),
    }
}

/// Entries of `raw_input_contents` that no input has taken yet.
struct RawContents {
    /// True if the request had any entries.
    present: bool,
    rest: std::vec::IntoIter<Bytes>,
}

fn decode_inputs(model: &str, given: Vec<InferInputTensor>, mut raw: RawContents) -> Result<Vec<Input>, GrpcError> {
    let mut names = HashSet::with_capacity(given.len());
    let mut inputs = Vec::with_capacity(given.len());
    for input in given {
        if !names.insert(input.name.clone()) {
            return Err(GrpcError::DuplicateInput(input.name));
        }
        inputs.push(decode_input(model, input, &mut raw)?);
    }
    Ok(inputs)
}

fn decode_input(model: &str, given: InferInputTensor, raw: &mut RawContents) -> Result<Input, GrpcError> {
    let Some(datatype) = DataType::parse(&given.datatype) else {
        return Err(GrpcError::Datatype { input: given.name, model: model.to_owned(), datatype: given.datatype });
    };
    let shape = match Shape::new(&given.shape) {
        Ok(shape) => shape,
        Err(cause) => {
            return Err(GrpcError::Shape { input: given.name, model: model.to_owned(), cause });
        }
    };
    Ok(Input { source: source(model, &given, datatype, raw)?, name: given.name, datatype, shape })
}

fn source(
    model: &str,
    given: &InferInputTensor,
    datatype: DataType,
    raw: &mut RawContents,
) -> Result<Source, GrpcError> {
    let input = || given.name.clone();
    let model = || model.to_owned();
    if let Some(range) = parameters::shared_range(&given.name, &given.parameters)? {
        return match &given.contents {
            None => Ok(Source::Shared(range)),
            Some(_) => Err(GrpcError::SharedContents { input: input(), model: model() }),
        };
    }
    match &given.contents {
        Some(_) if raw.present => Err(GrpcError::MixedContents { input: input(), model: model() }),
        Some(contents) => match contents::encode(contents, datatype) {
            Ok(data) => Ok(Source::Inline(data)),
            Err(error) => Err(contents_error(input(), model(), datatype, error)),
        },
        None => match raw.rest.next() {
            Some(data) => Ok(Source::Inline(data)),
            None => Err(GrpcError::NoData { input: input(), model: model() }),
        },
    }
}

fn contents_error(input: String, model: String, datatype: DataType, error: ContentsError) -> GrpcError {
    match error {
        ContentsError::WrongField(given) => GrpcError::WrongContents { input, model, given, expected: datatype.name() },
        ContentsError::OutOfRange(value) => GrpcError::OutOfRange { input, model, value, datatype: datatype.name() },
        ContentsError::ElementTooLarge => GrpcError::ElementTooLarge { input, model },
    }
}

fn decode_outputs(given: Vec<InferRequestedOutputTensor>) -> Result<Vec<RequestedOutput>, GrpcError> {
    let mut names = HashSet::with_capacity(given.len());
    let mut outputs = Vec::with_capacity(given.len());
    for output in given {
        if !names.insert(output.name.clone()) {
            return Err(GrpcError::DuplicateOutput(output.name));
        }
        outputs.push(decode_output(output)?);
    }
    Ok(outputs)
}

fn decode_output(given: InferRequestedOutputTensor) -> Result<RequestedOutput, GrpcError> {
    let InferRequestedOutputTensor { name, parameters } = given;
    let classes = parameters::classes(&parameters)?;
    let delivery = match (parameters::shared_range(&name, &parameters)?, classes) {
        (Some(_), Some(_)) => return Err(GrpcError::SharedClasses(name)),
        (Some(range), None) => Delivery::Shared(range),
        (None, _) => Delivery::Binary,
    };
    Ok(RequestedOutput { name, delivery, classes })
}
