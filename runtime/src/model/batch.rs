//! Gathers jobs into a [`Batch`], and slices its [`BatchOutput`] for each job.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use weir_protocol::{DataType, Parameters, Shape, Tensor};

use crate::backend::{Batch, BatchOutput, Column, RequestInfo, RequestTensor, Signature};
use crate::error::ServeError;
use crate::model::interface::{Interface, model_dims, reshaped};
use crate::model::job::{Job, Length};
use crate::model::padding::variable_axis;

impl Interface {
    /// Arranges the jobs of one group by input, without copying any tensor data.
    ///
    /// # Errors
    /// [`ServeError::Invalid`] if the whole batch is too large for a tensor.
    pub fn gather(&self, jobs: &[Job]) -> Result<Batch, ServeError> {
        let rows = jobs.iter().map(|job| job.rows).sum();
        let mut columns = Vec::with_capacity(self.signature.inputs.len());
        for (i, config) in self.signature.inputs.iter().enumerate() {
            let parts: Vec<RequestTensor> = jobs.iter().filter_map(|job| job.parts[i].clone()).collect();
            let Some(first) = parts.first() else { continue };
            let shape = self.column_shape(&first.shape, rows, model_dims(config), jobs)?;
            let name: Arc<str> = config.name.as_str().into();
            let pad = self.padding.as_ref().map_or(0.0, |padding| padding.value(&config.name));
            columns.push(Column { name, datatype: first.datatype, shape, parts, pad });
        }
        let info = |job: &Job| RequestInfo { rows: job.rows, parameters: Arc::clone(&job.parameters), staged: None };
        Ok(Batch { rows, columns, requests: jobs.iter().map(info).collect() })
    }

    fn column_shape(&self, first: &Shape, rows: usize, dims: &[i64], jobs: &[Job]) -> Result<Shape, ServeError> {
        if self.signature.max_batch_size == 0 {
            return Ok(first.clone());
        }
        let mut shape: Vec<i64> = first.signed().collect();
        shape[0] = rows as i64;
        let bucket = jobs.first().and_then(|job| job.length).map(|length| length.bucket as i64);
        if let (Some(bucket), Some(axis)) = (bucket, variable_axis(dims)) {
            shape[axis + 1] = bucket;
        }
        Shape::new(&shape).map_err(|error| ServeError::Invalid(error.to_string()))
    }
}

impl Interface {
    /// Checks that an answer can be sliced: every output is present, with one row for each row of the batch.
    ///
    /// # Errors
    /// [`ServeError::Model`] that names the wrong output.
    pub fn check(&self, answer: &BatchOutput, rows: usize) -> Result<(), ServeError> {
        for (i, config) in self.signature.outputs.iter().enumerate() {
            let name = &config.name;
            let Some(output) = answer.outputs.get(i) else {
                return Err(ServeError::Model(format!("the model returned no output '{name}'")));
            };
            let shape = output.shape();
            if self.signature.max_batch_size > 0 && shape.dims().first() != Some(&rows) {
                return Err(ServeError::Model(format!(
                    "output '{name}' of shape {shape} has not one row for each of the batch's {rows}"
                )));
            }
        }
        Ok(())
    }
}

impl Interface {
    /// Checks that a response can be made of the answer to a single request.
    ///
    /// # Errors
    /// [`ServeError::Model`] that names the wrong output.
    pub(crate) fn check_whole(
        &self,
        answer: BatchOutput,
        rows: usize,
        length: Option<Length>,
    ) -> Result<(), ServeError> {
        self.check(&answer, rows)?;
        let slice = OutputSlice { answer: Arc::new(answer), index: 0, first_row: 0, rows, batch_rows: rows, length };
        for index in 0..self.signature.outputs.len() {
            slice.output(self, index)?;
        }
        Ok(())
    }
}

/// Checks that a response with this signature can be made of a model's answer to one request of `rows` rows.
///
/// # Errors
/// A text for the client that names the wrong output.
pub fn check_output(model: &str, signature: &Signature, answer: BatchOutput, rows: usize) -> Result<(), String> {
    let interface = Interface { model: model.to_owned(), signature: signature.clone(), padding: None };
    let checked = interface.check_whole(answer, rows, None);
    checked.map_err(|error| error.to_string())
}

/// One job's slice of a checked answer. The thread that writes the response copies the rows.
#[derive(Clone, Debug)]
pub struct OutputSlice {
    /// The whole batch's answer.
    pub answer: Arc<BatchOutput>,
    /// Position of the request in the batch.
    pub index: usize,
    /// The request's first row in the outputs.
    pub first_row: usize,
    /// Number of the request's rows.
    pub rows: usize,
    /// Rows of the whole batch.
    pub batch_rows: usize,
    /// Length of the request before and after padding.
    pub length: Option<Length>,
}

impl OutputSlice {
    /// The response parameters that the model returned for this request.
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        self.answer.parameters.get(self.index).cloned().unwrap_or_default()
    }

    /// Returns this request's rows of output `index`, in the shape that the client expects.
    ///
    /// # Errors
    /// [`ServeError::Model`] if the model's output contradicts its configuration.
    pub fn output(&self, interface: &Interface, index: usize) -> Result<Tensor, ServeError> {
        let config = &interface.signature.outputs[index];
        let output = &self.answer.outputs[index];
        let batched = interface.signature.max_batch_size > 0;
        let (mut shape, mut data) =
            if batched { self.cut_rows(output) } else { (output.shape().signed().collect(), output.data().clone()) };
        let skip = usize::from(batched);
        if let (Some(length), Some(axis)) = (self.length, variable_axis(model_dims(config))) {
            let axis = axis + skip;
            if shape.get(axis) == Some(&(length.bucket as i64)) && length.own < length.bucket {
                data = trim(&data, output.datatype(), &shape, (axis, length.own));
                shape[axis] = length.own as i64;
            }
        }
        if let Some(reshape) = &config.reshape {
            let client = reshaped(&shape[skip.min(shape.len())..], reshape, &config.dims);
            shape.truncate(skip);
            shape.extend(client);
        }
        let broken = |error: String| ServeError::Model(format!("output '{}': {error}", config.name));
        let shape = Shape::new(&shape).map_err(|error| broken(error.to_string()))?;
        Tensor::new(config.name.clone(), output.datatype(), shape, data).map_err(|error| broken(error.to_string()))
    }

    fn cut_rows(&self, output: &Tensor) -> (Vec<i64>, Bytes) {
        let dims = output.shape();
        let mut shape: Vec<i64> = dims.signed().collect();
        shape[0] = self.rows as i64;
        let per_row = dims.elements() / self.batch_rows.max(1);
        let (from, to) = (self.first_row * per_row, (self.first_row + self.rows) * per_row);
        let data = match output.datatype().size() {
            Some(size) => output.data().slice(from * size..to * size),
            None => cut_strings(output.data(), from, to),
        };
        (shape, data)
    }
}

/// Returns elements `from..to` of length-prefixed strings. All elements before `to` are read, because strings vary in
/// size.
fn cut_strings(data: &Bytes, from: usize, to: usize) -> Bytes {
    let mut at = 0;
    let mut start = 0;
    for element in 0..to {
        if element == from {
            start = at;
        }
        let Some(length) = data.get(at..).and_then(|rest| rest.first_chunk::<4>()) else {
            break;
        };
        at += 4 + u32::from_le_bytes(*length) as usize;
    }
    if from == to { Bytes::new() } else { data.slice(start..at.min(data.len())) }
}

/// Returns a copy with the first `keep` elements of an axis. BYTES tensors are never padded, so they are returned
/// whole.
fn trim(data: &Bytes, datatype: DataType, shape: &[i64], (axis, keep): (usize, usize)) -> Bytes {
    let Some(size) = datatype.size() else {
        return data.clone();
    };
    let product = |dims: &[i64]| dims.iter().map(|dim| *dim as usize).product::<usize>();
    let inner = product(&shape[axis + 1..]) * size;
    let (stride, kept) = (shape[axis] as usize * inner, keep * inner);
    let mut out = BytesMut::with_capacity(product(&shape[..axis]) * kept);
    if stride > 0 {
        for run in data.chunks_exact(stride) {
            out.extend_from_slice(&run[..kept]);
        }
    }
    out.freeze()
}
