//! V2 gRPC messages: requests that can be merged, and responses that can be split.

mod contents;

use std::ops::Range;

use bytes::Bytes;
use prost::Message as _;
use weir_protocol::grpc::Footprint;
use weir_protocol::grpc::proto::model_infer_request::InferInputTensor;
use weir_protocol::grpc::proto::model_infer_response::InferOutputTensor;
use weir_protocol::grpc::proto::{InferTensorContents, ModelInferRequest, ModelInferResponse};
use weir_protocol::{DataType, Shape};

use super::rows::RowSlices;

/// A V2 gRPC request that can share a batch.
#[derive(Clone, Debug)]
pub(super) struct GrpcRequest {
    message: ModelInferRequest,
    pub(super) rows: usize,
}

/// A V2 gRPC response that can be split by rows.
#[derive(Clone, Debug)]
pub(super) struct GrpcResponse {
    message: ModelInferResponse,
    /// Row positions in each output's raw contents; `None` for typed contents.
    slices: Vec<Option<RowSlices>>,
    pub(super) rows: usize,
}

impl GrpcRequest {
    /// Returns the bytes that a message takes once decoded; `None` if it has more parts than any model uses.
    pub(super) fn decoded_bytes(message: &[u8]) -> Option<usize> {
        let mut footprint = Footprint::of_infer(message.len());
        footprint.feed(message).ok()?;
        Some(footprint.decoded_bytes())
    }

    /// Decodes a request; `None` if it cannot share a batch because it has no rows, uses shared memory or a sequence,
    /// or its data does not fit its shape.
    pub(super) fn read(message: Bytes) -> Option<Self> {
        let message = ModelInferRequest::decode(message).ok()?;
        let is_of_sequence = message.parameters.keys().any(|key| key.starts_with("sequence_"));
        let outputs = message.outputs.iter().map(|output| &output.parameters);
        let inputs = message.inputs.iter().map(|input| &input.parameters);
        let keys = outputs.chain(inputs).flat_map(|parameters| parameters.keys());
        let is_shared = keys.into_iter().any(|key| key.starts_with("shared_memory_"));
        let rows = rows(message.inputs.iter().map(|input| &*input.shape)).ok()?;
        let request = Self { message, rows };
        (!is_of_sequence && !is_shared && request.data_fits()).then_some(request)
    }

    pub(super) fn id(&self) -> &str {
        &self.message.id
    }

    /// Returns the message without ids, rows and data, which is equal in all requests of a batch.
    pub(super) fn batch_key(&self) -> Vec<u8> {
        let ModelInferRequest { model_name, model_version, parameters, inputs, outputs, .. } = &self.message;
        let key = ModelInferRequest {
            model_name: model_name.clone(),
            model_version: model_version.clone(),
            id: String::new(),
            parameters: parameters.clone(),
            inputs: inputs.iter().map(without_data).collect(),
            outputs: outputs.clone(),
            raw_input_contents: Vec::new(),
        };
        key.encode_to_vec()
    }

    /// Merges requests with equal keys into one with the rows of all. The id is that of the first request.
    pub(super) fn merge(all: &[&Self]) -> ModelInferRequest {
        let Some(first) = all.first() else {
            return ModelInferRequest::default();
        };
        let rows: usize = all.iter().map(|one| one.rows).sum();
        let mut merged = first.message.clone();
        for (i, input) in merged.inputs.iter_mut().enumerate() {
            set_rows(&mut input.shape, rows);
            let others = all[1..].iter().filter_map(|one| one.message.inputs.get(i));
            if let Some(contents) = &mut input.contents {
                for other in others {
                    contents::extend(contents, other.contents.as_ref());
                }
            }
        }
        for (i, raw) in merged.raw_input_contents.iter_mut().enumerate() {
            let parts: Vec<&[u8]> =
                all.iter().filter_map(|one| one.message.raw_input_contents.get(i)).map(|part| &part[..]).collect();
            *raw = parts.concat().into();
        }
        merged
    }

    fn data_fits(&self) -> bool {
        let mut raw = self.message.raw_input_contents.iter();
        let mut inputs = self.message.inputs.iter();
        let fits = inputs.all(|input| match &input.contents {
            Some(contents) => fits(contents, &input.datatype, &input.shape),
            None => raw.next().is_some_and(|raw| row_slices(&input.datatype, &input.shape, raw).is_some()),
        });
        fits && raw.next().is_none()
    }
}

impl GrpcResponse {
    /// Decodes a response.
    ///
    /// # Errors
    /// A clause that describes why the response cannot be split.
    pub(super) fn read(message: Bytes) -> Result<Self, String> {
        let message = ModelInferResponse::decode(message).map_err(|error| error.to_string())?;
        let rows = rows(message.outputs.iter().map(|output| &*output.shape));
        let not_a_batch = |i: usize| {
            let output = message.outputs.get(i);
            output.map_or_else(|| "it has no output".to_owned(), not_batched)
        };
        Ok(Self { rows: rows.map_err(not_a_batch)?, slices: output_slices(&message)?, message })
    }

    /// Returns the name of the first output.
    pub(super) fn name(&self) -> &str {
        self.message.outputs.first().map_or("", |output| &output.name)
    }

    /// Returns the response with these rows only. The id is `id`, or the response's own if `id` is empty.
    pub(super) fn slice(&self, rows: &Range<usize>, id: &str) -> ModelInferResponse {
        let whole = &self.message;
        let id = if id.is_empty() { whole.id.as_str() } else { id };
        let outputs = whole.outputs.iter().map(|output| slice(output, self.rows, rows));
        let raw = whole.raw_output_contents.iter().zip(&self.slices);
        let raw = raw.map(|(raw, slices)| match slices {
            Some(slices) => raw.slice(slices.bytes(rows)),
            None => raw.clone(),
        });
        ModelInferResponse {
            model_name: whole.model_name.clone(),
            model_version: whole.model_version.clone(),
            id: id.to_owned(),
            parameters: whole.parameters.clone(),
            outputs: outputs.collect(),
            raw_output_contents: raw.collect(),
        }
    }
}

/// Returns the row positions in each output's raw contents; `None` for typed contents.
fn output_slices(message: &ModelInferResponse) -> Result<Vec<Option<RowSlices>>, String> {
    let mut raw = message.raw_output_contents.iter();
    let outputs = message.outputs.iter().map(|output| {
        let found = match (&output.contents, raw.next()) {
            (_, Some(raw)) => row_slices(&output.datatype, &output.shape, raw).map(Some),
            (Some(contents), None) => fits(contents, &output.datatype, &output.shape).then_some(None),
            (None, None) => None,
        };
        found.ok_or_else(|| format!("the data of output {:?} do not fit its shape", output.name))
    });
    outputs.collect()
}

/// Returns the first dimension if all shapes share it, otherwise the index of the first shape that differs.
fn rows<'a>(shapes: impl Iterator<Item = &'a [i64]>) -> Result<usize, usize> {
    let mut rows = None;
    for (i, shape) in shapes.enumerate() {
        let first = shape.first().and_then(|first| usize::try_from(*first).ok()).filter(|first| *first > 0).ok_or(i)?;
        if *rows.get_or_insert(first) != first {
            return Err(i);
        }
    }
    rows.ok_or(0)
}

/// Returns the error of an output whose first dimension is not the batch's.
fn not_batched(output: &InferOutputTensor) -> String {
    let (name, shape) = (&output.name, &output.shape);
    format!("tensor {name:?} has the shape {shape:?}, whose first dimension is not the batch's")
}

/// Returns an input without rows and data.
fn without_data(input: &InferInputTensor) -> InferInputTensor {
    let mut shape = input.shape.clone();
    set_rows(&mut shape, 0);
    InferInputTensor {
        name: input.name.clone(),
        datatype: input.datatype.clone(),
        shape,
        parameters: input.parameters.clone(),
        // Records that the input has typed contents.
        contents: input.contents.as_ref().map(|_| InferTensorContents::default()),
    }
}

fn slice(output: &InferOutputTensor, all: usize, rows: &Range<usize>) -> InferOutputTensor {
    let mut shape = output.shape.clone();
    set_rows(&mut shape, rows.len());
    let contents = output.contents.as_ref();
    InferOutputTensor {
        name: output.name.clone(),
        datatype: output.datatype.clone(),
        shape,
        parameters: output.parameters.clone(),
        contents: contents.map(|contents| contents::slice(contents, all, rows)),
    }
}

fn set_rows(shape: &mut [i64], rows: usize) {
    if let Some(first) = shape.first_mut() {
        *first = i64::try_from(rows).unwrap_or(i64::MAX);
    }
}

fn row_slices(datatype: &str, shape: &[i64], raw: &Bytes) -> Option<RowSlices> {
    RowSlices::of(DataType::parse(datatype)?, &Shape::new(shape).ok()?, raw)
}

/// Returns true if the typed contents have as many elements as the shape, all in one field.
fn fits(contents: &InferTensorContents, datatype: &str, shape: &[i64]) -> bool {
    let elements = Shape::new(shape).map(|shape| shape.elements());
    DataType::parse(datatype).is_some() && contents::count(contents) == elements.ok()
}
