//! A small pull reader and a writer for JSON text.
//!
//! Weir has its own reader because tensor bodies need several things that no general parser offers together. Triton's
//! clients send and expect the bare tokens `NaN`, `Inf`, `Infinity` and their negatives. 64-bit integers must stay
//! exact. Nesting has a limit with a fixed error message. A tensor's `data` may come before its `datatype`, so its
//! position must be kept and read later. Numbers must go from the text straight into a typed buffer, without a tree and
//! without an allocation per element.

mod error;
mod number;
mod reader;
mod skip;
mod spans;
mod text;
mod write;

pub(crate) use error::{Expected, JsonError};
pub(crate) use number::{Number, NumberKind};
pub(crate) use reader::{Kind, ReadPosition, Reader};
pub use spans::{RowLayout, elements, members, rows, widths};
pub(crate) use write::{double, float, integer, string};

/// Maximum nesting of arrays and objects, the same as Triton's.
pub(crate) const MAX_DEPTH: usize = 100;

#[cfg(test)]
mod tests;
