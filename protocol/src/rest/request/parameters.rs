//! Reads request parameters, reserved and custom ones.

use std::borrow::Cow;

use super::super::RestError;
use super::super::error::InField;
use crate::json::{Expected, JsonError, Kind, NumberKind, Reader};
use crate::{Parameter, Parameters};

/// Maximum number of parameters in a request, the same as over gRPC: each takes several times the memory of its text.
const MAX_PARAMETERS: usize = 4096;

/// The parameters of a request.
#[derive(Debug, Default)]
pub(in super::super) struct RequestParameters {
    /// All parameters except `binary_data_output`, which concerns the body and not the model.
    pub(in super::super) values: Parameters,
    /// Value of `binary_data_output`, if given.
    pub(in super::super) binary_output: Option<bool>,
}

/// Reads the `parameters` object, where null counts as absent.
pub(in super::super) fn request_parameters(reader: &mut Reader<'_>) -> Result<RequestParameters, RestError> {
    let mut parameters = RequestParameters::default();
    if reader.null() {
        return Ok(parameters);
    }
    reader.begin_object().field("parameters")?;
    while let Some(key) = reader.key().field("parameters")? {
        insert(&mut parameters, key, reader)?;
    }
    Ok(parameters)
}

/// Reads one parameter's value and stores it.
pub(in super::super) fn insert(
    parameters: &mut RequestParameters,
    key: Cow<'_, str>,
    reader: &mut Reader<'_>,
) -> Result<(), RestError> {
    if key == "binary_data_output" {
        let value = reader.boolean().field(&key)?;
        if parameters.binary_output.replace(value).is_some() {
            return Err(duplicate(&key));
        }
        return Ok(());
    }
    if parameters.values.len() == MAX_PARAMETERS {
        return Err(RestError::TooMany { list: "parameters", limit: MAX_PARAMETERS });
    }
    let value = read(&key, reader)?;
    if parameters.values.contains_key(&*key) {
        return Err(duplicate(&key));
    }
    parameters.values.insert(key.into_owned(), value);
    Ok(())
}

fn duplicate(key: &str) -> RestError {
    RestError::DuplicateKey { key: key.to_owned(), object: "parameters" }
}

fn read(key: &str, reader: &mut Reader<'_>) -> Result<Parameter, RestError> {
    match key {
        "sequence_start" | "sequence_end" => Ok(Parameter::Bool(reader.boolean().field(key)?)),
        "priority" | "timeout" => Ok(Parameter::Uint(reader.unsigned().field(key)?)),
        "sequence_id" => sequence_id(reader).field(key),
        _ if key.starts_with("triton_") => Err(RestError::ReservedParameter),
        _ => custom(key, reader),
    }
}

/// Reads the id of a sequence: a number or a string.
fn sequence_id(reader: &mut Reader<'_>) -> Result<Parameter, JsonError> {
    match reader.kind()? {
        Kind::Number => Ok(Parameter::Uint(reader.unsigned()?)),
        Kind::String => Ok(Parameter::String(reader.string()?.into_owned())),
        Kind::Object | Kind::Array | Kind::Bool | Kind::Null => Err(JsonError::Mismatch(Expected::String)),
    }
}

fn custom(key: &str, reader: &mut Reader<'_>) -> Result<Parameter, RestError> {
    match reader.kind().field(key)? {
        Kind::Bool => Ok(Parameter::Bool(reader.boolean().field(key)?)),
        Kind::String => Ok(Parameter::String(reader.string().field(key)?.into_owned())),
        Kind::Number => number(reader).field(key),
        Kind::Object | Kind::Array | Kind::Null => {
            // A syntax error in the value takes precedence over its wrong type.
            reader.skip().field(key)?;
            Err(RestError::ParameterType { key: key.to_owned() })
        }
    }
}

/// Reads a number as the first of the types `i64`, `u64` and `f64` that can hold it.
fn number(reader: &mut Reader<'_>) -> Result<Parameter, JsonError> {
    reader.ranged(|number| {
        if number.kind() == NumberKind::Integer {
            if let Some(value) = number.signed() {
                return Some(Parameter::Int(value));
            }
            if let Some(value) = number.unsigned() {
                return Some(Parameter::Uint(value));
            }
        }
        number.double().map(Parameter::Double)
    })
}
