//! The generate extension: inputs and parameters are plain members of one object.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::error::InField;
use super::nesting::Nesting;
use super::raw::request;
use super::request::{RequestParameters, insert, once, optional_string};
use super::response::{member, refuse_half, write_elements, write_parameter};
use super::tensor_data::DataDecoder;
use super::{Limits, RestError, TargetModel};
use crate::json::{self, Reader};
use crate::{Delivery, InferRequest, InferResponse, Input, Parameter, Shape, Source, TensorSpec};

/// Decodes a generate request. A member with the name of an input is that input's data, a scalar or an array. `id` is
/// the request's id, members of `parameters` count like top-level ones, and all other members are request parameters.
/// If `id` or `parameters` is null, it counts as absent, as in V2.
///
/// # Errors
/// Fails if the body is not a JSON object, if data has the wrong type or does not fill the input's dimensions, or if
/// parameters are invalid.
pub fn decode_generate(target: &TargetModel<'_>, body: &[u8], limits: &Limits) -> Result<InferRequest, RestError> {
    if body.len() > limits.max_json {
        return Err(RestError::JsonTooLarge { size: body.len(), limit: limits.max_json });
    }
    let mut reader = Reader::new(body);
    let mut draft = GenerateDraft {
        target,
        limits,
        id: None,
        has_parameters: None,
        inputs: Vec::new(),
        parameters: RequestParameters::default(),
    };
    draft.read(&mut reader, Scope::Request)?;
    reader.finish().field("request")?;
    let mut decoded = request(target, draft.inputs, Delivery::Json);
    decoded.id = draft.id.unwrap_or_default();
    decoded.parameters = draft.parameters.values;
    Ok(decoded)
}

/// Members read so far.
struct GenerateDraft<'a> {
    target: &'a TargetModel<'a>,
    limits: &'a Limits,
    id: Option<String>,
    /// Set once the member `parameters` has been read.
    has_parameters: Option<()>,
    inputs: Vec<Input>,
    parameters: RequestParameters,
}

/// Object that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Request,
    Parameters,
}

impl GenerateDraft<'_> {
    fn read(&mut self, reader: &mut Reader<'_>, scope: Scope) -> Result<(), RestError> {
        let object = match scope {
            Scope::Request => "request",
            Scope::Parameters => "parameters",
        };
        reader.begin_object().field(object)?;
        while let Some(key) = reader.key().field(object)? {
            // An input may be named `id` or `parameters`; the member is then the input.
            if let Some(spec) = self.target.inputs.iter().find(|spec| spec.name == key) {
                let input = self.read_input(reader, spec)?;
                self.add(input)?;
            } else if scope == Scope::Request && key == "parameters" {
                once(&mut self.has_parameters, &key, "request", Some(()))?;
                if !reader.null() {
                    self.read(reader, Scope::Parameters)?;
                }
            } else if scope == Scope::Request && key == "id" {
                once(&mut self.id, &key, "request", optional_string(reader)?)?;
            } else {
                insert(&mut self.parameters, key, reader)?;
            }
        }
        Ok(())
    }

    fn read_input(&self, reader: &mut Reader<'_>, spec: &TensorSpec) -> Result<Input, RestError> {
        let decoder = DataDecoder {
            name: &spec.name,
            field: &spec.name,
            datatype: spec.datatype,
            max_bytes: self.limits.max_json,
        };
        let (data, count, nesting) = decoder.decode_any(reader)?;
        Ok(Input {
            name: spec.name.clone(),
            datatype: spec.datatype,
            shape: shape(spec, count, &nesting)?,
            source: Source::Inline(data),
        })
    }

    fn add(&mut self, input: Input) -> Result<(), RestError> {
        if self.inputs.iter().any(|other| other.name == input.name) {
            return Err(RestError::DuplicateInput { name: input.name });
        }
        self.inputs.push(input);
        Ok(())
    }
}

/// Returns the shape of `count` elements. If the nesting of the data matches the input's dimensions, that is the shape;
/// flat data fills the dimensions. Data with any other nesting is refused, as in V2.
fn shape(spec: &TensorSpec, count: usize, nesting: &Nesting) -> Result<Shape, RestError> {
    if let Some(dims) = nesting.dims_if_matches(&spec.shape) {
        return Ok(Shape::new(&dims)?);
    }
    let shape = fill(spec, count)?;
    if nesting.fits(shape.dims()) { Ok(shape) } else { Err(unfitting(spec)) }
}

fn unfitting(spec: &TensorSpec) -> RestError {
    RestError::UnfittingShape { input: spec.name.clone() }
}

/// Distributes `count` elements over an input's dimensions: the innermost variable dimension is as large as the count
/// requires, and other variable dimensions are 1.
fn fill(spec: &TensorSpec, count: usize) -> Result<Shape, RestError> {
    let error = || unfitting(spec);
    let mut left = i64::try_from(count).map_err(|_| error())?;
    for &dim in spec.shape.iter().filter(|dim| **dim >= 0) {
        match left.checked_rem(dim) {
            Some(0) => left /= dim,
            // A dimension of zero only fits zero elements.
            None if left == 0 => {}
            Some(_) | None => return Err(error()),
        }
    }
    let mut dims = spec.shape.clone();
    for dim in dims.iter_mut().rev().filter(|dim| **dim < 0) {
        *dim = std::mem::replace(&mut left, 1);
    }
    let shape = Shape::new(&dims)?;
    if shape.elements() == count { Ok(shape) } else { Err(error()) }
}

/// Encodes a generate response: outputs and response parameters are members, in order of their names, and an output of
/// one element is a scalar. An output replaces any other member of its name, because the client asked for the output.
///
/// # Errors
/// Fails for FP16, BF16, and strings that are not UTF-8.
pub fn encode_generate(response: &InferResponse) -> Result<Bytes, RestError> {
    let mut members = BTreeMap::new();
    for (key, value) in &response.parameters {
        members.insert(key.as_str(), Member::Parameter(value));
    }
    if !response.id.is_empty() {
        members.insert("id", Member::Text(&response.id));
    }
    members.insert("model_name", Member::Text(&response.model));
    members.insert("model_version", Member::Text(&response.version));
    for (tensor, _) in &response.outputs {
        members.insert(tensor.name(), Member::Tensor(tensor));
    }
    let mut out = vec![b'{'];
    for (i, (key, value)) in members.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        value.write(&mut out, key)?;
    }
    out.push(b'}');
    Ok(out.into())
}

/// Value of a member in a generate response.
enum Member<'a> {
    Text(&'a str),
    Parameter(&'a Parameter),
    Tensor(&'a crate::Tensor),
}

impl Member<'_> {
    fn write(&self, out: &mut Vec<u8>, key: &str) -> Result<(), RestError> {
        match self {
            Self::Text(text) => member(out, key, text),
            Self::Parameter(value) => write_parameter(out, key, value),
            Self::Tensor(tensor) => {
                refuse_half(tensor)?;
                json::string(out, key);
                out.push(b':');
                let scalar = tensor.shape().elements() == 1;
                out.extend_from_slice(if scalar { b"" } else { b"[" });
                write_elements(out, tensor)?;
                out.extend_from_slice(if scalar { b"" } else { b"]" });
            }
        }
        Ok(())
    }
}

/// Frames one JSON document without line breaks as a server-sent event.
#[must_use]
pub fn event(json: &[u8]) -> Bytes {
    [b"data: ", json, b"\n\n"].concat().into()
}
