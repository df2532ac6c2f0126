//! V1 `:predict` bodies, as TensorFlow Serving and kserve define them.

mod nested;
mod rows;
mod write;

use self::rows::Columns;
use super::error::InField;
use super::raw::request;
use super::{Limits, RestError, TargetModel};
use crate::json::{Kind, Reader};
use crate::{Delivery, InferRequest};

pub use self::write::encode_predict;

/// Decodes a V1 request. `instances` contains rows: values of the model's only input, or objects by input name.
/// `inputs` contains columns: the tensor of the only input, or an object of tensors by input name. Shapes are taken
/// from the nesting, datatypes from the model. `{"b64": "…"}` is a byte string.
///
/// # Errors
/// Fails if the body has neither or both of `instances` and `inputs`, if arrays are ragged, if input names are unknown
/// or differ between rows, or if values have the wrong type.
pub fn decode_predict(target: &TargetModel<'_>, body: &[u8], limits: &Limits) -> Result<InferRequest, RestError> {
    if body.len() > limits.max_json {
        return Err(RestError::JsonTooLarge { size: body.len(), limit: limits.max_json });
    }
    let mut reader = Reader::new(body);
    let mut columns = None;
    reader.begin_object().field("request")?;
    while let Some(key) = reader.key().field("request")? {
        if key != "instances" && key != "inputs" {
            // `signature_name` and other members that older clients send have no meaning here.
            reader.skip().field(&key)?;
            continue;
        }
        if columns.is_some() {
            return Err(predict_error("request must have either 'instances' or 'inputs'"));
        }
        let mut read = Columns::new(target, limits);
        if key == "instances" {
            read_instances(&mut reader, &mut read)?;
        } else {
            read_inputs(&mut reader, &mut read)?;
        }
        columns = Some(read);
    }
    reader.finish().field("request")?;
    let columns = columns.ok_or_else(|| predict_error("request has neither 'instances' nor 'inputs'"))?;
    Ok(request(target, columns.finish()?, Delivery::Json))
}

/// Returns an error with a message about a V1 body.
fn predict_error(text: impl Into<String>) -> RestError {
    RestError::Predict(text.into())
}

fn read_instances(reader: &mut Reader<'_>, columns: &mut Columns<'_>) -> Result<(), RestError> {
    if reader.kind().field("instances")? != Kind::Array {
        return reader.begin_array().field("instances");
    }
    if !first_is_named(reader)? {
        // An array of values is the tensor of the only input, with one row per value.
        return columns.read_only(reader, "instances");
    }
    reader.begin_array().field("instances")?;
    while reader.element().field("instances")? {
        columns.read_row(reader)?;
    }
    Ok(())
}

/// Returns true if the first row is an object by input name. An object whose only key is `b64` is a value.
fn first_is_named(reader: &Reader<'_>) -> Result<bool, RestError> {
    let mut ahead = reader.clone();
    ahead.begin_array().field("instances")?;
    if !ahead.element().field("instances")? || ahead.kind().field("instances")? != Kind::Object {
        return Ok(false);
    }
    Ok(!nested::next_is_base64(&ahead))
}

fn read_inputs(reader: &mut Reader<'_>, columns: &mut Columns<'_>) -> Result<(), RestError> {
    if reader.kind().field("inputs")? == Kind::Object && !nested::next_is_base64(reader) {
        return columns.read_named(reader);
    }
    columns.read_only(reader, "inputs")
}
