//! A small pull reader and a writer for JSON text.
//!
//! It is our own because tensor bodies need what general parsers do not offer together. Triton's clients send
//! and expect the bare tokens `NaN`, `Inf`, `Infinity` and their negatives; 64-bit integers must
//! survive exactly; nesting is bounded by a limit with a fixed message; a tensor's `data` may come
//! before its `datatype`, so its position in the text must be kept and read later; and numbers must
//! go from the text straight into a typed buffer, with no tree and no allocation per element.

mod error;
mod number;
mod reader;
mod skip;
mod spans;
mod text;
mod write;

pub(crate) use error::{Expected, JsonError};
pub(crate) use number::{Number, NumberKind};
pub(crate) use reader::{Kind, Mark, Reader};
pub use spans::{RowLayout, elements, members, rows, widths};
pub(crate) use write::{double, float, integer, string};

/// Limit on the nesting of arrays and objects: Triton's.
pub(crate) const MAX_DEPTH: usize = 100;

#[cfg(test)]
mod tests;
