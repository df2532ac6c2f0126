//! Encodes the body of an inference response.

use bytes::Bytes;

use super::RestError;
use super::elements;
use crate::json;
use crate::{DataType, Delivery, InferResponse, Parameter, Parameters, Tensor};

/// An encoded response: the JSON, then the blobs. The blobs share the tensors' bytes, so a server that writes the parts
/// one after the other copies nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Value of [`HEADER_LENGTH`](super::HEADER_LENGTH); `None` if no byte follows the JSON, so that the body is
    /// `application/json`.
    pub header_length: Option<usize>,
    /// JSON part of the body.
    pub json: Bytes,
    /// Tensor data that follows the JSON; no blob is empty.
    pub blobs: Vec<Bytes>,
}

impl Encoded {
    /// Returns the size of the whole body in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.json.len() + self.blobs.iter().map(Bytes::len).sum::<usize>()
    }

    /// Returns false, because every response contains JSON.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Joins the parts, for callers that need one buffer. This copies only if there are blobs.
    #[must_use]
    pub fn into_body(self) -> Bytes {
        if self.blobs.is_empty() {
            return self.json;
        }
        let mut body = Vec::with_capacity(self.len());
        body.extend_from_slice(&self.json);
        for blob in &self.blobs {
            body.extend_from_slice(blob);
        }
        body.into()
    }
}

/// Encodes a response, with each output in the form of its delivery. Outputs in shared memory only have name, datatype
/// and shape, as in Triton.
///
/// # Errors
/// Fails for FP16 and BF16 outputs, and for strings that are not UTF-8, if they are delivered as JSON.
pub fn encode_response(response: &InferResponse) -> Result<Encoded, RestError> {
    let InferResponse { model, version, id, parameters, outputs } = response;
    let mut out = Vec::with_capacity(256);
    let mut blobs = Vec::new();
    out.push(b'{');
    if !id.is_empty() {
        member(&mut out, "id", id);
        out.push(b',');
    }
    member(&mut out, "model_name", model);
    out.push(b',');
    member(&mut out, "model_version", version);
    if !parameters.is_empty() {
        out.extend_from_slice(b",\"parameters\":");
        write_parameters(&mut out, parameters);
    }
    out.extend_from_slice(b",\"outputs\":[");
    for (i, (tensor, delivery)) in outputs.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_output(&mut out, &mut blobs, tensor, delivery)?;
    }
    out.extend_from_slice(b"]}");
    Ok(Encoded { header_length: (!blobs.is_empty()).then_some(out.len()), json: out.into(), blobs })
}

fn write_output(
    out: &mut Vec<u8>,
    blobs: &mut Vec<Bytes>,
    tensor: &Tensor,
    delivery: &Delivery,
) -> Result<(), RestError> {
    out.push(b'{');
    member(out, "name", tensor.name());
    out.push(b',');
    member(out, "datatype", tensor.datatype().name());
    out.extend_from_slice(b",\"shape\":[");
    for (i, dim) in tensor.shape().dims().iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::integer(out, *dim);
    }
    out.push(b']');
    match delivery {
        Delivery::Json => {
            refuse_half(tensor)?;
            out.extend_from_slice(b",\"data\":[");
            write_elements(out, tensor)?;
            out.push(b']');
        }
        Delivery::Binary => {
            out.extend_from_slice(b",\"parameters\":{\"binary_data_size\":");
            json::integer(out, tensor.data().len());
            out.push(b'}');
            if !tensor.data().is_empty() {
                blobs.push(tensor.data().clone());
            }
        }
        // The client owns the region. Parameters are omitted, because Triton's C++ client expects `binary_data_size` in
        // any `parameters` and fails without it.
        Delivery::Shared(_) => {}
    }
    out.push(b'}');
    Ok(())
}

/// Refuses half precision, which V2 only supports as binary data.
pub(super) fn refuse_half(tensor: &Tensor) -> Result<(), RestError> {
    if matches!(tensor.datatype(), DataType::Fp16 | DataType::Bf16) {
        return Err(RestError::HalfOutput { datatype: tensor.datatype(), output: tensor.name().to_owned() });
    }
    Ok(())
}

/// Writes all elements as a flat list in row-major order.
pub(super) fn write_elements(out: &mut Vec<u8>, tensor: &Tensor) -> Result<(), RestError> {
    if tensor.datatype() != DataType::Bytes {
        elements::write_all(out, tensor.datatype(), tensor.data());
        return Ok(());
    }
    out.reserve(tensor.data().len());
    for (i, element) in tensor.strings().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let text = std::str::from_utf8(element).map_err(|_| RestError::NotUtf8 { output: tensor.name().to_owned() })?;
        json::string(out, text);
    }
    Ok(())
}

/// Writes a member whose value is a string.
pub(super) fn member(out: &mut Vec<u8>, key: &str, value: &str) {
    json::string(out, key);
    out.push(b':');
    json::string(out, value);
}

fn write_parameters(out: &mut Vec<u8>, parameters: &Parameters) {
    out.push(b'{');
    for (i, (key, value)) in parameters.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_parameter(out, key, value);
    }
    out.push(b'}');
}

/// Writes a parameter as a member.
pub(super) fn write_parameter(out: &mut Vec<u8>, key: &str, value: &Parameter) {
    json::string(out, key);
    out.push(b':');
    match value {
        Parameter::Bool(true) => out.extend_from_slice(b"true"),
        Parameter::Bool(false) => out.extend_from_slice(b"false"),
        Parameter::Int(value) => json::integer(out, *value),
        Parameter::Uint(value) => json::integer(out, *value),
        Parameter::Double(value) => json::double(out, *value),
        Parameter::String(value) => json::string(out, value),
    }
}
