//! Jobs of the inputs on which the backend has run the model safely.

use std::sync::Arc;

use bytes::Bytes;
use weir_protocol::{Parameters, Shape};

use crate::backend::{RequestTensor, WarmUpInput};
use crate::model::interface::Interface;
use crate::model::job::{Job, Length};

/// Returns a job of `rows` equal rows; `None` if the tensors would be too large.
pub(super) fn job(interface: &Interface, input: &WarmUpInput, rows: usize) -> Option<Job> {
    let batches = interface.signature.max_batch_size > 0;
    let part = |row: &Option<RequestTensor>| match row {
        None => Some(None),
        Some(row) if batches => repeated(row, rows).map(Some),
        Some(row) => Some(Some(row.clone())),
    };
    let parts = input.row.iter().map(part).collect::<Option<Vec<_>>>()?;
    let length = input.length.map(|length| Length { own: length, bucket: length });
    Some(Job { rows, group: interface.group(&parts, length), parts, length, parameters: Arc::new(Parameters::new()) })
}

/// Returns the row repeated `rows` times, with the batch dimension first.
fn repeated(row: &RequestTensor, rows: usize) -> Option<RequestTensor> {
    let dims: Vec<i64> = [rows as i64].into_iter().chain(row.shape.signed()).collect();
    Some(RequestTensor {
        shape: Shape::new(&dims).ok()?,
        datatype: row.datatype,
        data: Bytes::from(row.data.repeat(rows)),
    })
}
