//! Reads and checks the shape of an input.

use smallvec::SmallVec;

use super::super::RestError;
use super::super::error::InField;
use crate::json::Reader;
use crate::{DataType, Shape};

/// Unchecked dimensions as sent by the client.
pub(super) type Dims = SmallVec<[u64; 4]>;

/// Reads an array of dimensions, and keeps at most one more than the limit allows.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Dims, RestError> {
    let mut dims = Dims::new();
    reader.begin_array().field("shape")?;
    while reader.element().field("shape")? {
        let dim = reader.unsigned().field("shape")?;
        if dims.len() <= Shape::MAX_DIMS {
            dims.push(dim);
        }
    }
    Ok(dims)
}

/// Checks the dimensions and multiplies them, elements first and then bytes, so that each overflow has its own message.
pub(super) fn check(input: &str, datatype: DataType, dims: &[u64]) -> Result<Shape, RestError> {
    let input = || input.to_owned();
    let limit = Shape::MAX_DIMS;
    if dims.len() > limit {
        return Err(RestError::TooManyDims { input: input(), limit });
    }
    let signed: Result<SmallVec<[i64; 4]>, _> = dims.iter().map(|&d| i64::try_from(d)).collect();
    let Ok(signed) = signed else {
        return Err(RestError::InvalidDims { input: input(), shape: text(dims) });
    };
    let overflow = |limit: u64| RestError::ElementOverflow { input: input(), shape: text(dims), limit };
    let max = i64::MAX as u64;
    let mut elements = 1_u64;
    for &dim in dims.iter().filter(|dim| **dim != 0) {
        elements = elements.saturating_mul(dim);
    }
    if elements > max {
        return Err(overflow(max));
    }
    let size = datatype.size().unwrap_or(1);
    if elements > max / size as u64 {
        return Err(RestError::ByteOverflow { input: input(), elements, size });
    }
    Shape::new(&signed).map_err(|_| overflow(Shape::MAX_ELEMENTS as u64))
}

/// Formats dimensions as Triton does: `[1,16]`.
fn text(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    format!("[{}]", dims.join(","))
}
