//! Decodes the body of an inference request.

mod input;
mod output;
mod parameters;
mod shape;

use std::collections::HashSet;
use std::hash::Hash;

use bytes::Bytes;

use self::input::{InputData, InputHead};
use self::output::OutputHead;
use super::binary::{self, Blobs};
use super::error::InField;
use super::{Limits, RestError};
use crate::json::{Kind, Reader};
use crate::{Delivery, InferRequest, Input, RequestedOutput, Source};

pub(super) use self::parameters::{RequestParameters, insert, request_parameters};

/// Decodes a body of `header_length` bytes of JSON (the whole body if `None`) and the binary tensors after it. Data in
/// JSON is parsed into one buffer per input; binary data is not copied.
///
/// Names, types, shapes and sizes are not compared with the model here.
///
/// # Errors
/// Fails on any defect of the body itself, with Triton's message. A partly decoded request is never returned.
pub fn decode_request(
    model: &str,
    version: &str,
    body: Bytes,
    header_length: Option<usize>,
    limits: &Limits,
) -> Result<InferRequest, RestError> {
    let (json, mut blobs) = binary::split(body, header_length, limits)?;
    let head = read_head(&json, limits)?;
    let default_delivery = head.parameters.default_delivery();
    let inputs = head.inputs.ok_or_else(|| RestError::missing("inputs"))?;
    let inputs = attach_data(inputs, &mut blobs, model)?;
    blobs.finish(model)?;
    let outputs: Vec<RequestedOutput> =
        head.outputs.into_iter().flatten().map(|output| output.finish(&default_delivery)).collect();
    refuse_duplicates(&inputs, &outputs)?;
    Ok(InferRequest {
        model: model.to_owned(),
        version: version.to_owned(),
        id: head.id.unwrap_or_default(),
        parameters: head.parameters.values,
        inputs,
        outputs,
        default_delivery,
    })
}

/// The JSON part of a request, read but without its blobs.
#[derive(Default)]
struct Head {
    id: Option<String>,
    parameters: RequestParameters,
    inputs: Option<Vec<InputHead>>,
    outputs: Option<Vec<OutputHead>>,
}

/// Reads the JSON part. Keys may come in any order, unknown keys are skipped, and `null` for an optional member counts
/// as absent, because clients that serialise whole objects write it.
fn read_head(json: &[u8], limits: &Limits) -> Result<Head, RestError> {
    let mut reader = Reader::new(json);
    let mut head = Head::default();
    let mut parameters = None;
    reader.begin_object().field("request")?;
    while let Some(key) = reader.key().field("request")? {
        match &*key {
            "id" => once(&mut head.id, "id", "request", optional_string(&mut reader)?)?,
            "parameters" => {
                let value = request_parameters(&mut reader)?;
                once(&mut parameters, "parameters", "request", Some(value))?;
            }
            "inputs" => {
                let value = list(&mut reader, "inputs", limits, input::read)?;
                once(&mut head.inputs, "inputs", "request", Some(value))?;
            }
            "outputs" if reader.null() => {}
            "outputs" => {
                let value = list(&mut reader, "outputs", limits, |r, _| output::read(r))?;
                once(&mut head.outputs, "outputs", "request", Some(value))?;
            }
            other => reader.skip().field(other)?,
        }
    }
    reader.finish().field("request")?;
    head.parameters = parameters.unwrap_or_default();
    Ok(head)
}

/// Reads the request's id, where null counts as absent.
pub(super) fn optional_string(reader: &mut Reader<'_>) -> Result<Option<String>, RestError> {
    if reader.null() {
        return Ok(None);
    }
    Ok(Some(reader.string().field("id")?.into_owned()))
}

/// Stores a member's value. A second one is refused, because parsers disagree on which one counts.
pub(super) fn once<T>(
    slot: &mut Option<T>,
    key: &str,
    object: &'static str,
    value: Option<T>,
) -> Result<(), RestError> {
    if slot.is_some() {
        return Err(RestError::DuplicateKey { key: key.to_owned(), object });
    }
    *slot = value;
    Ok(())
}

/// Reads an array of objects.
fn list<'a, T>(
    reader: &mut Reader<'a>,
    field: &'static str,
    limits: &Limits,
    mut read: impl FnMut(&mut Reader<'a>, &Limits) -> Result<T, RestError>,
) -> Result<Vec<T>, RestError> {
    reader.begin_array().field(field)?;
    let mut items = Vec::new();
    while reader.element().field(field)? {
        if items.len() == limits.max_tensors {
            return Err(RestError::TooMany { list: field, limit: limits.max_tensors });
        }
        // The error names the list, because an object in it has no key of its own.
        if reader.kind().field(field)? != Kind::Object {
            reader.begin_object().field(field)?;
        }
        items.push(read(reader, limits)?);
    }
    Ok(items)
}

/// Joins each input with its data.
fn attach_data(heads: Vec<InputHead>, blobs: &mut Blobs, model: &str) -> Result<Vec<Input>, RestError> {
    let mut inputs = Vec::with_capacity(heads.len());
    for head in heads {
        let source = match head.data {
            InputData::Json(data) => Source::Inline(data),
            InputData::Blob(size) => Source::Inline(blobs.take(size, &head.name, model)?),
            InputData::Shared(range) => Source::Shared(range),
        };
        inputs.push(Input { name: head.name, datatype: head.datatype, shape: head.shape, source });
    }
    Ok(inputs)
}

fn refuse_duplicates(inputs: &[Input], outputs: &[RequestedOutput]) -> Result<(), RestError> {
    if let Some(name) = first_duplicate(inputs.iter().map(|input| input.name.as_str())) {
        let name = name.to_owned();
        return Err(RestError::DuplicateInput { name });
    }
    if let Some(name) = first_duplicate(outputs.iter().map(|output| output.name.as_str())) {
        let name = name.to_owned();
        return Err(RestError::DuplicateOutput { name });
    }
    Ok(())
}

fn first_duplicate<T: Eq + Hash + Copy>(names: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = HashSet::new();
    let mut names = names;
    names.find(|name| !seen.insert(*name))
}

impl RequestParameters {
    /// Returns the delivery of outputs that do not set their own.
    fn default_delivery(&self) -> Delivery {
        match self.binary_output {
            Some(true) => Delivery::Binary,
            Some(false) | None => Delivery::Json,
        }
    }
}
