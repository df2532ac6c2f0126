//! Parameters, and those the protocol gives a meaning.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::GrpcError;
use super::proto::{InferParameter, infer_parameter::ParameterChoice};
use crate::{Parameter, Parameters, SharedRange};

/// Parameters as generated messages hold them.
pub(super) type Given = BTreeMap<String, InferParameter>;

const REGION: &str = "shared_memory_region";
const OFFSET: &str = "shared_memory_offset";
const SIZE: &str = "shared_memory_byte_size";
const CLASSES: &str = "classification";
/// The only key beginning with `triton_` that clients may send: it asks for an empty last response.
const EMPTY_FINAL: &str = "triton_enable_empty_final_response";

/// The value, if there is one.
fn decode_parameter(given: InferParameter) -> Option<Parameter> {
    Some(match given.parameter_choice? {
        ParameterChoice::BoolParam(value) => Parameter::Bool(value),
        ParameterChoice::Int64Param(value) => Parameter::Int(value),
        ParameterChoice::Uint64Param(value) => Parameter::Uint(value),
        ParameterChoice::DoubleParam(value) => Parameter::Double(value),
        ParameterChoice::StringParam(value) => Parameter::String(value),
    })
}

/// The value in the field of its type.
#[must_use]
pub fn encode_parameter(value: Parameter) -> InferParameter {
    let choice = match value {
        Parameter::Bool(value) => ParameterChoice::BoolParam(value),
        Parameter::Int(value) => ParameterChoice::Int64Param(value),
        Parameter::Uint(value) => ParameterChoice::Uint64Param(value),
        Parameter::Double(value) => ParameterChoice::DoubleParam(value),
        Parameter::String(value) => ParameterChoice::StringParam(value),
    };
    InferParameter {
        parameter_choice: Some(choice),
    }
}

/// Reads a request's parameters and checks those that have a meaning.
pub(super) fn request(given: Given) -> Result<Parameters, GrpcError> {
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

/// The place in shared memory that a tensor's parameters name, if they do.
pub(super) fn shared(tensor: &str, given: &Given) -> Result<Option<SharedRange>, GrpcError> {
    let region = text(tensor, given)?;
    let offset = count(OFFSET, tensor, given)?;
    let size = count(SIZE, tensor, given)?;
    let incomplete = |given, missing| {
        Err(GrpcError::SharedIncomplete {
            given,
            missing,
            tensor: tensor.to_owned(),
        })
    };
    match (region, offset, size) {
        (None, None, None) => Ok(None),
        (None, Some(_), _) => incomplete(OFFSET, REGION),
        (None, None, Some(_)) => incomplete(SIZE, REGION),
        (Some(_), _, None) => incomplete(REGION, SIZE),
        (Some(region), offset, Some(size)) => Ok(Some(SharedRange {
            region,
            offset: offset.unwrap_or(0),
            size,
        })),
    }
}

fn text(tensor: &str, given: &Given) -> Result<Option<String>, GrpcError> {
    match given.get(REGION).map(|value| &value.parameter_choice) {
        None => Ok(None),
        Some(Some(ParameterChoice::StringParam(region))) => Ok(Some(region.clone())),
        Some(_) => Err(GrpcError::SharedType {
            key: REGION,
            tensor: tensor.to_owned(),
            expected: "string_param",
        }),
    }
}

fn count(key: &'static str, tensor: &str, given: &Given) -> Result<Option<u64>, GrpcError> {
    let tensor = || tensor.to_owned();
    match given.get(key).map(|value| &value.parameter_choice) {
        None => Ok(None),
        Some(Some(ParameterChoice::Uint64Param(value))) => Ok(Some(*value)),
        Some(Some(ParameterChoice::Int64Param(value))) => match u64::try_from(*value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(GrpcError::SharedNegative {
                key,
                tensor: tensor(),
            }),
        },
        Some(_) => Err(GrpcError::SharedType {
            key,
            tensor: tensor(),
            expected: "int64_param",
        }),
    }
}

/// How many classes an output's parameters ask for, if they do.
pub(super) fn classes(given: &Given) -> Result<Option<NonZeroUsize>, GrpcError> {
    let Some(value) = given.get(CLASSES) else {
        return Ok(None);
    };
    let wanted = match value.parameter_choice {
        Some(ParameterChoice::Int64Param(wanted)) => usize::try_from(wanted).ok(),
        Some(ParameterChoice::Uint64Param(wanted)) => usize::try_from(wanted).ok(),
        _ => {
            return Err(GrpcError::ParameterType {
                key: CLASSES,
                expected: "int64_param",
            });
        }
    };
    match wanted.and_then(NonZeroUsize::new) {
        Some(wanted) => Ok(Some(wanted)),
        None => Err(GrpcError::ParameterValue {
            key: CLASSES,
            expected: "value > 0",
        }),
    }
}

/// How a response says where in shared memory an output lies.
pub(super) fn encode_shared(range: SharedRange, written: usize) -> Given {
    let int = |value| encode_parameter(Parameter::Int(value));
    let mut parameters = Given::new();
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    parameters.insert(
        REGION.to_owned(),
        encode_parameter(Parameter::String(range.region)),
    );
    parameters.insert(SIZE.to_owned(), int(signed(written as u64)));
    if range.offset > 0 {
        parameters.insert(OFFSET.to_owned(), int(signed(range.offset)));
    }
    parameters
}
