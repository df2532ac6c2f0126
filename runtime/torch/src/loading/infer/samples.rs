//! Fills trial inputs with the elements of an example.

use std::ops::Range;

use bytes::Bytes;
use weir_protocol::Tensor;
use weir_runtime::backend::Column;

/// Fills a column of any size with the example's elements. The first rows are the example's own. Rows beyond them are
/// the same elements shifted by one position, so that rows differ but keep valid values.
pub(super) fn fill(mut column: Column, example: &Tensor, rows: Range<usize>) -> Column {
    let elements = elements(example);
    for part in &mut column.parts {
        let count = part.shape.elements();
        let per_row = count / rows.len().max(1);
        let first = rows.start;
        let picked = (0..count).filter_map(|at| {
            let row = first + at / per_row.max(1);
            let index = first * per_row + at;
            let own_rows = elements.len().checked_div(per_row)?.max(1);
            elements.get((index + row / own_rows) % elements.len().max(1))
        });
        part.data = picked.flat_map(|element| element.iter().copied()).collect();
    }
    column
}

/// Returns the elements one by one; a string keeps its length prefix.
fn elements(example: &Tensor) -> Vec<Bytes> {
    let data = example.data();
    match example.datatype().size() {
        Some(size) => (0..data.len() / size).map(|at| data.slice(at * size..(at + 1) * size)).collect(),
        None => strings(data),
    }
}

/// Splits a column of length-prefixed strings; each keeps its prefix.
pub(super) fn strings(data: &Bytes) -> Vec<Bytes> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(length) = data.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let end = at + 4 + u32::from_le_bytes(*length) as usize;
        if end > data.len() {
            break;
        }
        all.push(data.slice(at..end));
        at = end;
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_protocol::{DataType, Shape};
    use weir_runtime::backend::RequestTensor;

    use super::*;

    fn filled(example: &Tensor, shape: &[i64], rows: Range<usize>) -> Vec<u8> {
        let shape = Shape::new(shape).unwrap();
        let column = Column {
            name: Arc::from("x"),
            datatype: DataType::Uint8,
            parts: vec![RequestTensor { shape: shape.clone(), datatype: DataType::Uint8, data: Bytes::new() }],
            shape,
            pad: 0.0,
        };
        fill(column, example, rows).parts[0].data.to_vec()
    }

    #[test]
    fn the_first_rows_are_the_examples_and_others_differ() {
        let shape = Shape::new(&[1, 3]).unwrap();
        let example = Tensor::new("x".into(), DataType::Uint8, shape, Bytes::from_static(&[7, 8, 9]));
        let example = example.unwrap();
        assert_eq!(filled(&example, &[1, 3], 0..1), [7, 8, 9]);
        assert_eq!(filled(&example, &[2, 3], 0..2), [7, 8, 9, 8, 9, 7]);
        assert_eq!(filled(&example, &[1, 3], 1..2), [8, 9, 7]);
    }
}
