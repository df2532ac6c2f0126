//! Tensor shapes with a checked element count, with or without a batch dimension.

use std::fmt;

use smallvec::SmallVec;

/// Dimensions of a tensor. [`Shape::new`] checks that no dimension is negative and that their product, even in bytes of
/// the widest element, fits in an `i64`, so no caller needs to check again.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: SmallVec<[usize; 4]>,
    elements: usize,
}

/// Error of dimensions that do not make a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A dimension is below zero.
    #[error("shape {shape} has the negative dimension {dim}")]
    Negative {
        /// The dimensions as given.
        shape: String,
        /// The first negative dimension.
        dim: i64,
    },
    /// There are more dimensions than [`Shape::MAX_DIMS`]. They are not printed, because a client may send megabytes of
    /// them.
    #[error("shape has {count} dimensions, more than {max}")]
    TooManyDims {
        /// Number of dimensions given.
        count: usize,
        /// Maximum number of dimensions, [`Shape::MAX_DIMS`].
        max: usize,
    },
    /// The product of the dimensions exceeds [`Shape::MAX_ELEMENTS`].
    #[error("shape {shape} causes total element count to exceed maximum size of {max}")]
    TooLarge {
        /// The dimensions as given.
        shape: String,
        /// Maximum number of elements, [`Shape::MAX_ELEMENTS`].
        max: usize,
    },
}

impl Shape {
    /// Maximum number of elements: `i64::MAX` bytes of eight-byte elements, so that a byte size computed from a shape
    /// never overflows.
    pub const MAX_ELEMENTS: usize = (i64::MAX / 8) as usize;

    /// Maximum number of dimensions, the same as libtorch's.
    pub const MAX_DIMS: usize = 64;

    /// Checks the dimensions and multiplies them.
    ///
    /// # Errors
    /// [`ShapeError`] for too many dimensions, a negative dimension or a product over [`Shape::MAX_ELEMENTS`]. The
    /// product leaves out dimensions of zero, because a part of the shape without them could still overflow.
    pub fn new(dims: &[i64]) -> Result<Self, ShapeError> {
        if dims.len() > Self::MAX_DIMS {
            return Err(ShapeError::TooManyDims { count: dims.len(), max: Self::MAX_DIMS });
        }
        let mut checked = SmallVec::with_capacity(dims.len());
        for &dim in dims {
            let Ok(dim) = usize::try_from(dim) else {
                return Err(ShapeError::Negative { shape: text(dims), dim });
            };
            checked.push(dim);
        }
        let too_large = || ShapeError::TooLarge { shape: text(dims), max: Self::MAX_ELEMENTS };
        let mut product = 1_usize;
        for &dim in checked.iter().filter(|dim| **dim != 0) {
            product = product.checked_mul(dim).ok_or_else(too_large)?;
        }
        if product > Self::MAX_ELEMENTS {
            return Err(too_large());
        }
        let elements = if checked.contains(&0) { 0 } else { product };
        Ok(Self { dims: checked, elements })
    }

    /// Returns the dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Returns the dimensions as signed integers, as in the protocol and in libtorch.
    pub fn signed(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        self.dims.iter().map(|&dim| dim as i64)
    }

    /// Returns the product of the dimensions, which is 1 for a scalar.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats the shape as in Triton's messages: `[1,16]`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(&self.signed().collect::<Vec<_>>()))
    }
}

fn text(dims: &[i64]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(","))
}

/// Layout of a model's tensors: with or without a batch dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// The first dimension of every tensor counts the rows of a batch.
    FirstDimension,
    /// Tensors have no batch dimension.
    None,
}
