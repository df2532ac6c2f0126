//! Positions of rows in a tensor's bytes.

use std::ops::Range;

use bytes::Bytes;
use weir_protocol::{DataType, Shape, Tensor};

/// Positions of the rows in a tensor's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RowSlices {
    /// All rows have this many bytes.
    Even(usize),
    /// End position of each row, in bytes.
    At(Vec<usize>),
}

impl RowSlices {
    /// Returns the rows of a tensor; `None` if its bytes do not fit its shape or it has no rows.
    pub(super) fn of(datatype: DataType, shape: &Shape, data: &Bytes) -> Option<Self> {
        let rows = shape.dims().first().copied().filter(|rows| *rows > 0)?;
        let tensor = Tensor::new(String::new(), datatype, shape.clone(), data.clone()).ok()?;
        match datatype.size() {
            Some(_) => Some(Self::Even(data.len() / rows)),
            None => Some(Self::At(ends(&tensor, rows))),
        }
    }

    /// Returns the byte range of a range of rows.
    pub(super) fn bytes(&self, rows: &Range<usize>) -> Range<usize> {
        match self {
            Self::Even(stride) => rows.start * stride..rows.end * stride,
            Self::At(ends) => {
                let end = |row: usize| row.checked_sub(1).map_or(0, |last| ends[last]);
                end(rows.start)..end(rows.end)
            }
        }
    }
}

/// Returns the end of each row of a `BYTES` tensor, in which each string has a length prefix.
fn ends(tensor: &Tensor, rows: usize) -> Vec<usize> {
    let each = tensor.shape().elements() / rows;
    let (mut ends, mut end) = (Vec::with_capacity(rows), 0);
    for (i, string) in tensor.strings().enumerate() {
        end += LENGTH + string.len();
        if (i + 1) % each.max(1) == 0 {
            ends.push(end);
        }
    }
    // Rows without elements have no bytes.
    ends.resize(rows, end);
    ends
}

/// Bytes of the length prefix of a string.
const LENGTH: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_strings_end_where_their_last_string_does() {
        let data = Bytes::from_static(b"\x01\0\0\0a\0\0\0\0\x02\0\0\0bc\0\0\0\0");
        let shape = Shape::new(&[2, 2]).unwrap();
        let slices = RowSlices::of(DataType::Bytes, &shape, &data).unwrap();
        assert_eq!(slices.bytes(&(0..1)), 0..9);
        assert_eq!(slices.bytes(&(1..2)), 9..19);
        assert_eq!(slices.bytes(&(0..2)), 0..19);
    }

    #[test]
    fn bytes_that_do_not_fit_the_shape_have_no_rows() {
        let shape = Shape::new(&[2, 2]).unwrap();
        let slices = |bytes: &'static [u8]| RowSlices::of(DataType::Int16, &shape, &Bytes::from_static(bytes));
        assert_eq!(slices(b"12345678"), Some(RowSlices::Even(4)));
        assert_eq!(slices(b"1234567"), None);
        let scalar = Shape::new(&[]).unwrap();
        assert_eq!(RowSlices::of(DataType::Int8, &scalar, &Bytes::from_static(b"1")), None);
        let empty = Shape::new(&[0, 2]).unwrap();
        assert_eq!(RowSlices::of(DataType::Int8, &empty, &Bytes::new()), None);
    }
}
