//! Raw bodies, which contain no JSON: the whole body is the tensor of the model's only input.

use bytes::Bytes;

use super::elements;
use super::{Limits, RestError, TargetModel};
use crate::{Batching, DataType, Delivery, InferRequest, Input, Shape, Source, TensorSpec};

/// Decodes a body with a header length of 0. The batch size is 1, at most one further dimension may be variable, and
/// all outputs are returned as binary data. A BYTES input must have one element: the body is that string, without a
/// length prefix.
///
/// # Errors
/// Fails if the model does not have exactly one input, if the shape cannot be deduced from the size, or if the body
/// exceeds [`Limits::max_json`].
pub fn decode_raw(target: &TargetModel<'_>, body: Bytes, limits: &Limits) -> Result<InferRequest, RestError> {
    let [spec] = target.inputs else {
        return Err(RestError::RawInputs { count: target.inputs.len(), model: target.model.to_owned() });
    };
    if body.len() > limits.max_json {
        return Err(RestError::RawTooLarge { size: body.len(), limit: limits.max_json });
    }
    let (dims, data) = match spec.datatype.size() {
        Some(size) => (deduce(target, spec, body.len() / size)?, body),
        None => one_string(target, spec, &body)?,
    };
    let input = Input {
        name: spec.name.clone(),
        datatype: spec.datatype,
        shape: Shape::new(&dims)?,
        source: Source::Inline(data),
    };
    Ok(request(target, vec![input], Delivery::Binary))
}

/// Returns a request with these inputs and defaults for everything else.
pub(super) fn request(target: &TargetModel<'_>, inputs: Vec<Input>, default_delivery: Delivery) -> InferRequest {
    InferRequest {
        model: target.model.to_owned(),
        version: target.version.to_owned(),
        id: String::new(),
        parameters: crate::Parameters::new(),
        inputs,
        outputs: Vec::new(),
        default_delivery,
    }
}

/// Returns the input's dimensions with a batch of one.
fn single_row(target: &TargetModel<'_>, spec: &TensorSpec) -> Vec<i64> {
    let mut dims = spec.shape.clone();
    match (target.batching, dims.first_mut()) {
        (Batching::FirstDimension, Some(first)) => *first = 1,
        (Batching::FirstDimension, None) | (Batching::None, _) => {}
    }
    dims
}

/// Computes the variable dimension from the number of elements. Surplus bytes are detected later, when the size of
/// every input is compared with its shape.
fn deduce(target: &TargetModel<'_>, spec: &TensorSpec, elements: usize) -> Result<Vec<i64>, RestError> {
    let mut dims = single_row(target, spec);
    let fixed = dims.iter().filter(|dim| **dim >= 0).fold(1_i64, |product, dim| product.saturating_mul(*dim));
    let mut variable = dims.iter_mut().filter(|dim| **dim < 0);
    if let Some(dim) = variable.next() {
        let elements = i64::try_from(elements).unwrap_or(i64::MAX);
        *dim = elements.checked_div(fixed).unwrap_or(0);
    }
    if variable.next().is_some() {
        return Err(RestError::RawShape { input: spec.name.clone() });
    }
    Ok(dims)
}

fn one_string(target: &TargetModel<'_>, spec: &TensorSpec, body: &Bytes) -> Result<(Vec<i64>, Bytes), RestError> {
    debug_assert_eq!(spec.datatype, DataType::Bytes);
    let error = || RestError::RawBytes { input: spec.name.clone() };
    let dims = single_row(target, spec);
    if dims.iter().any(|dim| *dim != 1) {
        return Err(error());
    }
    let mut data = Vec::with_capacity(body.len() + 4);
    elements::push_string(&mut data, body).ok_or_else(error)?;
    Ok((dims, data.into()))
}
