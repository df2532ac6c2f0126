//! Converts parameters, and checks those that the protocol defines.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::GrpcError;
use super::proto::{InferParameter, infer_parameter::ParameterChoice};
use crate::{Parameter, Parameters, SharedRange};

/// Parameters in the type that the generated messages use.
pub(super) type ProtoParameters = BTreeMap<String, InferParameter>;

const REGION: &str = "shared_memory_region";
const OFFSET: &str = "shared_memory_offset";
const SIZE: &str = "shared_memory_byte_size";
const CLASSES: &str = "classification";
/// Requests an empty last response; the only key beginning with `triton_` that clients may send.
const EMPTY_FINAL: &str = "triton_enable_empty_final_response";

/// Converts a parameter from protobuf; `None` if no field is set.
fn decode_parameter(given: InferParameter) -> Option<Parameter> {
    Some(match given.parameter_choice? {
        ParameterChoice::BoolParam(value) => Parameter::Bool(value),
        ParameterChoice::Int64Param(value) => Parameter::Int(value),
        ParameterChoice::Uint64Param(value) => Parameter::Uint(value),
        ParameterChoice::DoubleParam(value) => Parameter::Double(value),
        ParameterChoice::StringParam(value) => Parameter::String(value),
    })
}

/// Converts a parameter to protobuf; the value is put in the field of its type.
#[must_use]
pub fn encode_parameter(value: Parameter) -> InferParameter {
    let choice = match value {
        Parameter::Bool(value) => ParameterChoice::BoolParam(value),
        Parameter::Int(value) => ParameterChoice::Int64Param(value),
        Parameter::Uint(value) => ParameterChoice::Uint64Param(value),
        Parameter::Double(value) => ParameterChoice::DoubleParam(value),
        Parameter::String(value) => ParameterChoice::StringParam(value),
    };
    InferParameter { parameter_choice: Some(choice) }
}

/// Decodes a request's parameters and checks those that the protocol defines.
pub(super) fn decode_parameters(given: ProtoParameters) -> Result<Parameters, GrpcError> {
    let mut parameters = Parameters::new();
    for (key, value) in given {
        if key.starts_with("triton_") && key != EMPTY_FINAL {
            return Err(GrpcError::ReservedParameter);
        }
        let Some(value) = decode_parameter(value) else {
            return Err(GrpcError::EmptyParameter(key));
        };
        check_reserved(&key, &value)?;
        parameters.insert(key, value);
    }
    Ok(parameters)
}

fn check_reserved(key: &str, value: &Parameter) -> Result<(), GrpcError> {
    use Parameter::{Bool, Int, String, Uint};
    let wrong_type = |key, expected| Err(GrpcError::ParameterType { key, expected });
    match (key, value) {
        ("sequence_start" | "sequence_end" | EMPTY_FINAL, Bool(_))
        | ("sequence_id", Int(_) | Uint(_) | String(_))
        | ("priority" | "timeout", Uint(_)) => Ok(()),
        ("priority", Int(value)) => check_not_negative("priority", *value),
        ("timeout", Int(value)) => check_not_negative("timeout", *value),
        ("sequence_start", _) => wrong_type("sequence_start", "bool_param"),
        ("sequence_end", _) => wrong_type("sequence_end", "bool_param"),
        (EMPTY_FINAL, _) => wrong_type(EMPTY_FINAL, "bool_param"),
        ("sequence_id", _) => wrong_type("sequence_id", "int64_param or string_param"),
        ("priority", _) => wrong_type("priority", "int64_param or uint64_param"),
        ("timeout", _) => wrong_type("timeout", "int64_param"),
        (_, _) => Ok(()),
    }
}

fn check_not_negative(key: &'static str, value: i64) -> Result<(), GrpcError> {
    if value < 0 {
        let expected = "value >= 0";
        return Err(GrpcError::ParameterValue { key, expected });
    }
    Ok(())
}

/// Returns the range of shared memory that a tensor's parameters name, if any.
pub(super) fn shared_range(tensor: &str, given: &ProtoParameters) -> Result<Option<SharedRange>, GrpcError> {
    let region = region(tensor, given)?;
    let offset = unsigned(OFFSET, tensor, given)?;
    let size = unsigned(SIZE, tensor, given)?;
    let incomplete = |given, missing| Err(GrpcError::SharedIncomplete { given, missing, tensor: tensor.to_owned() });
    match (region, offset, size) {
        (None, None, None) => Ok(None),
        (None, Some(_), _) => incomplete(OFFSET, REGION),
        (None, None, Some(_)) => incomplete(SIZE, REGION),
        (Some(_), _, None) => incomplete(REGION, SIZE),
        (Some(region), offset, Some(size)) => Ok(Some(SharedRange { region, offset: offset.unwrap_or(0), size })),
    }
}

fn region(tensor: &str, given: &ProtoParameters) -> Result<Option<String>, GrpcError> {
    match given.get(REGION).map(|value| &value.parameter_choice) {
        None => Ok(None),
        Some(Some(ParameterChoice::StringParam(region))) => Ok(Some(region.clone())),
        Some(_) => Err(GrpcError::SharedType { key: REGION, tensor: tensor.to_owned(), expected: "string_param" }),
    }
}

fn unsigned(key: &'static str, tensor: &str, given: &ProtoParameters) -> Result<Option<u64>, GrpcError> {
    let tensor = || tensor.to_owned();
    match given.get(key).map(|value| &value.parameter_choice) {
        None => Ok(None),
        Some(Some(ParameterChoice::Uint64Param(value))) => Ok(Some(*value)),
        Some(Some(ParameterChoice::Int64Param(value))) => match u64::try_from(*value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(GrpcError::SharedNegative { key, tensor: tensor() }),
        },
        Some(_) => Err(GrpcError::SharedType { key, tensor: tensor(), expected: "int64_param" }),
    }
}

/// Returns the number of classes that an output's parameters request, if any.
pub(super) fn classes(given: &ProtoParameters) -> Result<Option<NonZeroUsize>, GrpcError> {
    let Some(value) = given.get(CLASSES) else {
        return Ok(None);
    };
    let classes = match value.parameter_choice {
        Some(ParameterChoice::Int64Param(classes)) => usize::try_from(classes).ok(),
        Some(ParameterChoice::Uint64Param(classes)) => usize::try_from(classes).ok(),
        _ => {
            return Err(GrpcError::ParameterType { key: CLASSES, expected: "int64_param" });
        }
    };
    match classes.and_then(NonZeroUsize::new) {
        Some(classes) => Ok(Some(classes)),
        None => Err(GrpcError::ParameterValue { key: CLASSES, expected: "value > 0" }),
    }
}

/// Encodes the parameters of an output that was written to shared memory: the range, and the `written` bytes as its
/// size.
pub(super) fn encode_shared(range: SharedRange, written: usize) -> ProtoParameters {
    let int = |value| encode_parameter(Parameter::Int(value));
    let mut parameters = ProtoParameters::new();
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    parameters.insert(REGION.to_owned(), encode_parameter(Parameter::String(range.region)));
    parameters.insert(SIZE.to_owned(), int(signed(written as u64)));
    if range.offset > 0 {
        parameters.insert(OFFSET.to_owned(), int(signed(range.offset)));
    }
    parameters
}
