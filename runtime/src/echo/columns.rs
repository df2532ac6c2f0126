//! Joins the parts of a column, and pads parts that are smaller than the batch's shape.

use bytes::{Bytes, BytesMut};
use half::{bf16, f16};
use weir_protocol::DataType;

use crate::backend::{Column, ModelError, RequestTensor};

/// Returns the column's data, rows of all requests together. A single part of the column's shape is returned without a
/// copy.
pub(super) fn joined(column: &Column) -> Result<Bytes, ModelError> {
    if let [part] = column.parts.as_slice()
        && part.shape == column.shape
    {
        return Ok(part.data.clone());
    }
    if column.parts.iter().all(|part| fits(part, column)) {
        let size = column.parts.iter().map(|part| part.data.len()).sum();
        let mut data = BytesMut::with_capacity(size);
        for part in &column.parts {
            data.extend_from_slice(&part.data);
        }
        return Ok(data.freeze());
    }
    padded(column)
}

/// Returns true if the part needs no padding: all its dimensions after the first equal the column's.
fn fits(part: &RequestTensor, column: &Column) -> bool {
    part.shape.dims().get(1..) == column.shape.dims().get(1..)
}

fn padded(column: &Column) -> Result<Bytes, ModelError> {
    let Some(element) = pad_element(column.datatype, column.pad) else {
        return Err(ModelError::Failed(format!("input '{}' is {} and cannot be padded", column.name, column.datatype)));
    };
    let mut data = element.repeat(column.shape.elements());
    let row = element.len() * column.shape.dims().iter().skip(1).product::<usize>();
    let mut start = 0;
    for part in &column.parts {
        let rows = part.shape.dims().first().copied().unwrap_or(1);
        let end = start + rows * row;
        let place = data.get_mut(start..end).ok_or_else(|| misfit(column))?;
        let inner = column.shape.dims().get(1..).unwrap_or_default();
        fill(place, &part.data, inner, part, element.len()).ok_or_else(|| misfit(column))?;
        start = end;
    }
    Ok(data.into())
}

/// Copies a part line by line. A line is one run along the innermost dimension, which is contiguous in both buffers.
/// Returns `None` if the part is larger than `place`.
fn fill(place: &mut [u8], source: &[u8], place_inner: &[usize], part: &RequestTensor, element: usize) -> Option<()> {
    let dims = part.shape.dims();
    let inner = dims.get(1..)?;
    let line = inner.last()? * element;
    if inner.len() != place_inner.len() || line == 0 {
        return (inner.len() == place_inner.len()).then_some(());
    }
    for (index, run) in source.chunks_exact(line).enumerate() {
        let start = line_start(index, inner, place_inner)? * element;
        place.get_mut(start..start + line)?.copy_from_slice(run);
    }
    Some(())
}

/// Returns where line `index` of the part starts in the joined data, in elements.
fn line_start(mut index: usize, inner: &[usize], place_inner: &[usize]) -> Option<usize> {
    let mut stride = *place_inner.last()?;
    let mut start = 0;
    let outer = inner.len() - 1;
    for (size, place_size) in inner[..outer].iter().zip(&place_inner[..outer]).rev() {
        if size > place_size {
            return None;
        }
        start += index % size * stride;
        index /= size;
        stride *= place_size;
    }
    (inner.last() <= place_inner.last()).then_some(start + index * stride)
}

fn misfit(column: &Column) -> ModelError {
    ModelError::Failed(format!("a part of input '{}' is larger than its place {}", column.name, column.shape))
}

/// Returns the padding value as one element; `None` for BYTES, whose elements have no fixed size.
fn pad_element(datatype: DataType, pad: f64) -> Option<Vec<u8>> {
    // `as` saturates, so a padding value beyond the type's range becomes its nearest value.
    Some(match datatype {
        DataType::Bool => vec![u8::from(pad != 0.0)],
        DataType::Uint8 => vec![pad as u8],
        DataType::Int8 => (pad as i8).to_le_bytes().to_vec(),
        DataType::Uint16 => (pad as u16).to_le_bytes().to_vec(),
        DataType::Int16 => (pad as i16).to_le_bytes().to_vec(),
        DataType::Fp16 => f16::from_f64(pad).to_le_bytes().to_vec(),
        DataType::Bf16 => bf16::from_f64(pad).to_le_bytes().to_vec(),
        DataType::Uint32 => (pad as u32).to_le_bytes().to_vec(),
        DataType::Int32 => (pad as i32).to_le_bytes().to_vec(),
        DataType::Fp32 => (pad as f32).to_le_bytes().to_vec(),
        DataType::Uint64 => (pad as u64).to_le_bytes().to_vec(),
        DataType::Int64 => (pad as i64).to_le_bytes().to_vec(),
        DataType::Fp64 => pad.to_le_bytes().to_vec(),
        DataType::Bytes => return None,
    })
}
