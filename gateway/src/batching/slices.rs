//! Where the rows of a tensor's bytes begin and end.

use std::ops::Range;

use bytes::Bytes;
use weir_protocol::{DataType, Shape, Tensor};

/// The rows of a tensor's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slices {
    /// All of the same length.
    Even(usize),
    /// The end of each.
    At(Vec<usize>),
}

impl Slices {
    /// Those of a tensor with these bytes; `None` where they are not the shape's, or there are no rows.
    pub(super) fn of(datatype: DataType, shape: &Shape, data: &Bytes) -> Option<Self> {
        let rows = shape.dims().first().copied().filter(|rows| *rows > 0)?;
        let tensor = Tensor::new(String::new(), datatype, shape.clone(), data.clone()).ok()?;
        match datatype.size() {
            Some(_) => Some(Self::Even(data.len() / rows)),
            None => Some(Self::At(ends(&tensor, rows))),
        }
    }

    /// The bytes of some rows.
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

/// The ends of the rows of strings, each with its length before it.
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

/// Bytes of the length before a string.
const LENGTH: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_strings_end_where_their_last_string_does() {
        let data = Bytes::from_static(b"\x01\0\0\0a\0\0\0\0\x02\0\0\0bc\0\0\0\0");
        let shape = Shape::new(&[2, 2]).unwrap();
        let slices = Slices::of(DataType::Bytes, &shape, &data).unwrap();
        assert_eq!(slices.bytes(&(0..1)), 0..9);
        assert_eq!(slices.bytes(&(1..2)), 9..19);
        assert_eq!(slices.bytes(&(0..2)), 0..19);
    }

    #[test]
    fn bytes_that_are_not_the_shape_s_have_no_rows() {
        let shape = Shape::new(&[2, 2]).unwrap();
        let slices =
            |bytes: &'static [u8]| Slices::of(DataType::Int16, &shape, &Bytes::from_static(bytes));
        assert_eq!(slices(b"12345678"), Some(Slices::Even(4)));
        assert_eq!(slices(b"1234567"), None);
        let scalar = Shape::new(&[]).unwrap();
        assert_eq!(
            Slices::of(DataType::Int8, &scalar, &Bytes::from_static(b"1")),
            None
        );
        let empty = Shape::new(&[0, 2]).unwrap();
        assert_eq!(Slices::of(DataType::Int8, &empty, &Bytes::new()), None);
    }
}
