//! Tensors whose data fits their shape.

use bytes::Bytes;

use crate::{DataType, Shape};

/// A tensor in row-major order, little-endian. [`Tensor::new`] checks that its data fits its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    name: String,
    datatype: DataType,
    shape: Shape,
    data: Bytes,
}

/// Name, datatype and shape of a tensor, as in a model's signature or metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name of the input or output.
    pub name: String,
    /// Type of the elements.
    pub datatype: DataType,
    /// Dimensions, including the batch dimension if there is one; -1 matches any size.
    pub shape: Vec<i64>,
}

/// Error of data that does not fit a tensor's datatype and shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The number of bytes differs from elements times element size.
    #[error("expected {expected} bytes, got {got}")]
    Size {
        /// Number of elements times the element size.
        expected: usize,
        /// Number of bytes in the data.
        got: usize,
    },
    /// The data ends within the length prefix of a BYTES element.
    #[error("incomplete string length indicator: expecting 4 bytes but only {left} bytes available")]
    TruncatedLength {
        /// Bytes after the last complete element.
        left: usize,
    },
    /// The data ends within a BYTES element.
    #[error("incomplete string data: expecting string of length {length} but only {left} bytes available")]
    TruncatedString {
        /// Length that the element's prefix announces, in bytes.
        length: usize,
        /// Bytes left after the length prefix.
        left: usize,
    },
    /// A BYTES tensor has too few or too many elements for its shape.
    #[error("unexpected number of string elements: expected {expected}, got {got}")]
    Elements {
        /// Number of elements in the shape.
        expected: usize,
        /// Number of elements found, counted up to one more than expected.
        got: usize,
    },
}

impl Tensor {
    /// Returns a tensor after checking that `data` contains exactly the shape's elements.
    ///
    /// # Errors
    /// [`TensorError`] if it does not. Only BYTES tensors are checked element by element.
    pub fn new(name: String, datatype: DataType, shape: Shape, data: Bytes) -> Result<Self, TensorError> {
        match datatype.size() {
            Some(size) => check_size(shape.elements() * size, data.len())?,
            None => check_strings(shape.elements(), &data)?,
        }
        Ok(Self { name, datatype, shape, data })
    }

    /// Returns the name of the input or output.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the datatype of the elements.
    #[must_use]
    pub fn datatype(&self) -> DataType {
        self.datatype
    }

    /// Returns the dimensions, with their checked product.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the elements in row-major order, little-endian; BYTES elements have length prefixes.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Iterates over the elements of a BYTES tensor without their length prefixes; empty for other datatypes.
    pub fn strings(&self) -> impl Iterator<Item = &[u8]> {
        let data: &[u8] = if self.datatype == DataType::Bytes { &self.data } else { &[] };
        strings(data).map_while(Result::ok)
    }
}

fn check_size(expected: usize, got: usize) -> Result<(), TensorError> {
    if expected == got { Ok(()) } else { Err(TensorError::Size { expected, got }) }
}

fn check_strings(expected: usize, data: &[u8]) -> Result<(), TensorError> {
    let mut got = 0;
    for element in strings(data) {
        element?;
        got += 1;
        if got > expected {
            break;
        }
    }
    if got == expected { Ok(()) } else { Err(TensorError::Elements { expected, got }) }
}

/// Iterates over length-prefixed elements. An `Err` ends the iteration if the data is truncated.
fn strings(mut rest: &[u8]) -> impl Iterator<Item = Result<&[u8], TensorError>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((length, tail)) = rest.split_first_chunk::<4>() else {
            let left = std::mem::take(&mut rest).len();
            return Some(Err(TensorError::TruncatedLength { left }));
        };
        let length = u32::from_le_bytes(*length) as usize;
        let Some((element, tail)) = tail.split_at_checked(length) else {
            rest = &[];
            let left = tail.len();
            return Some(Err(TensorError::TruncatedString { length, left }));
        };
        rest = tail;
        Some(Ok(element))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_tensor(elements: i64, data: &'static [u8]) -> Result<Tensor, TensorError> {
        let shape = Shape::new(&[elements]).unwrap();
        Tensor::new("x".to_owned(), DataType::Bytes, shape, Bytes::from_static(data))
    }

    #[test]
    fn strings_are_counted_and_bounded() {
        let ok = bytes_tensor(2, b"\x01\0\0\0a\0\0\0\0").unwrap();
        assert_eq!(ok.strings().collect::<Vec<_>>(), [&b"a"[..], b""]);
        let cut = bytes_tensor(1, b"\x05\0\0\0ab").unwrap_err();
        assert_eq!(cut, TensorError::TruncatedString { length: 5, left: 2 });
        let cut = bytes_tensor(2, b"\0\0\0\0\x01\0").unwrap_err();
        assert_eq!(cut, TensorError::TruncatedLength { left: 2 });
        let many = bytes_tensor(1, b"\0\0\0\0\0\0\0\0").unwrap_err();
        assert_eq!(many, TensorError::Elements { expected: 1, got: 2 });
    }
}
