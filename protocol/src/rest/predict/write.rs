//! Encodes V1 responses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::super::RestError;
use super::super::elements;
use crate::json;
use crate::{DataType, InferResponse, Tensor};

/// Maximum number of arrays in a tensor without elements: a shape such as `[1000000000, 0]` has no bytes of data, but
/// gigabytes of brackets.
const MAX_EMPTY_ARRAYS: usize = 1 << 16;

/// Encodes a V1 response: `predictions` contains one row per instance, nested by the output's shape. With several
/// outputs, each row is an object by output name. Half precision is written as numbers, because V1 has no binary form.
/// Strings that are not UTF-8 are written as `{"b64": "…"}`.
///
/// # Errors
/// Fails if an output has no first dimension, or if outputs differ in it.
pub fn encode_predict(response: &InferResponse) -> Result<Bytes, RestError> {
    let mut outputs: Vec<Rows<'_>> = Vec::with_capacity(response.outputs.len());
    for (tensor, _) in &response.outputs {
        outputs.push(Rows::new(tensor)?);
    }
    let count = outputs.first().map_or(0, |rows| rows.count);
    if let Some(other) = outputs.iter().find(|rows| rows.count != count) {
        return Err(rows_error(other.tensor));
    }
    let mut out = b"{\"predictions\":[".to_vec();
    for row in 0..count {
        if row > 0 {
            out.push(b',');
        }
        match outputs.as_mut_slice() {
            [only] => only.write(&mut out),
            several => write_object(&mut out, several),
        }
    }
    out.extend_from_slice(b"]}");
    Ok(out.into())
}

fn write_object(out: &mut Vec<u8>, outputs: &mut [Rows<'_>]) {
    out.push(b'{');
    for (i, rows) in outputs.iter_mut().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::string(out, rows.tensor.name());
        out.push(b':');
        rows.write(out);
    }
    out.push(b'}');
}

/// A tensor to be written row by row.
struct Rows<'a> {
    tensor: &'a Tensor,
    count: usize,
    dims: &'a [usize],
    scalars: Scalars<'a>,
}

/// Elements that have not been written yet.
enum Scalars<'a> {
    Fixed { datatype: DataType, size: usize, data: &'a [u8] },
    Strings(Box<dyn Iterator<Item = &'a [u8]> + 'a>),
}

impl<'a> Rows<'a> {
    fn new(tensor: &'a Tensor) -> Result<Self, RestError> {
        let [count, dims @ ..] = tensor.shape().dims() else {
            return Err(rows_error(tensor));
        };
        let before_zero = tensor.shape().dims().iter().take_while(|dim| **dim > 0);
        let arrays = before_zero.fold(1_usize, |product, dim| product.saturating_mul(*dim));
        if tensor.shape().elements() == 0 && arrays > MAX_EMPTY_ARRAYS {
            return Err(rows_error(tensor));
        }
        let scalars = match tensor.datatype().size() {
            Some(size) => Scalars::Fixed { datatype: tensor.datatype(), size, data: tensor.data() },
            None => Scalars::Strings(Box::new(tensor.strings())),
        };
        Ok(Self { tensor, count: *count, dims, scalars })
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        self.scalars.write(out, self.dims);
    }
}

impl Scalars<'_> {
    fn write(&mut self, out: &mut Vec<u8>, dims: &[usize]) {
        let [length, inner @ ..] = dims else {
            return self.write_one(out);
        };
        out.push(b'[');
        for i in 0..*length {
            if i > 0 {
                out.push(b',');
            }
            self.write(out, inner);
        }
        out.push(b']');
    }

    fn write_one(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Fixed { datatype, size, data } => {
                let (element, rest) = data.split_at(*size);
                elements::write_all(out, *datatype, element);
                *data = rest;
            }
            Self::Strings(strings) => write_string(out, strings.next().unwrap_or_default()),
        }
    }
}

fn write_string(out: &mut Vec<u8>, element: &[u8]) {
    if let Ok(text) = std::str::from_utf8(element) {
        return json::string(out, text);
    }
    out.extend_from_slice(b"{\"b64\":\"");
    out.extend_from_slice(STANDARD.encode(element).as_bytes());
    out.extend_from_slice(b"\"}");
}

fn rows_error(tensor: &Tensor) -> RestError {
    RestError::Rows { output: tensor.name().to_owned(), shape: tensor.shape().to_string() }
}
