//! Tensor shapes with a checked element count.

use std::fmt;

use smallvec::SmallVec;

/// Dimensions of a tensor. [`Shape::new`] proves that no dimension is negative and that their product,
/// even in bytes of the widest element, fits in an `i64`, so that no caller checks again.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: SmallVec<[usize; 4]>,
    elements: usize,
}

/// Dimensions that do not make a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A dimension below zero.
    #[error("shape {shape} has the negative dimension {dim}")]
    Negative {
        /// The dimensions as given.
        shape: String,
        /// The first negative dimension.
        dim: i64,
    },
    /// More dimensions than [`Shape::MAX_DIMS`]. They are not printed: a client may send megabytes of them.
    #[error("shape has {count} dimensions, more than {max}")]
    TooManyDims {
        /// Number of dimensions given.
        count: usize,
        /// The limit on them.
        max: usize,
    },
    /// A product of dimensions over [`Shape::MAX_ELEMENTS`].
    #[error("shape {shape} causes total element count to exceed maximum size of {max}")]
    TooLarge {
        /// The dimensions as given.
        shape: String,
        /// The limit on elements, [`Shape::MAX_ELEMENTS`].
        max: usize,
    },
}

impl Shape {
    /// `i64::MAX` bytes of eight-byte elements: a byte size computed from a shape never overflows.
    pub const MAX_ELEMENTS: usize = (i64::MAX / 8) as usize;

    /// Limit on dimensions: libtorch's own.
    pub const MAX_DIMS: usize = 64;

    /// Checks the dimensions and multiplies them.
    ///
    /// # Errors
    /// [`ShapeError`] for too many dimensions, a negative dimension or a product over [`Shape::MAX_ELEMENTS`]; a zero
    /// elsewhere does not excuse an overflow, because a slice of the shape could still overflow.
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

    /// The dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The dimensions as the wire and libtorch write them.
    pub fn signed(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        self.dims.iter().map(|&dim| dim as i64)
    }

    /// The product of the dimensions; 1 for a scalar.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Replaces the first dimension by `rows`, for a batch of another size.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn with_first(&self, rows: usize) -> Result<Self, ShapeError> {
        let mut dims: SmallVec<[i64; 4]> = self.signed().collect();
        if let Some(first) = dims.first_mut() {
            *first = i64::try_from(rows).unwrap_or(i64::MAX);
        }
        Self::new(&dims)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Written as Triton writes shapes in its messages: `[1,16]`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(&self.signed().collect::<Vec<_>>()))
    }
}

fn text(dims: &[i64]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(","))
}
