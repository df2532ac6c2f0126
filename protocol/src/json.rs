//! A small pull reader and a writer for JSON text.
//!
//! Why our own: tensor bodies need what general parsers do not offer together. Triton's clients send
//! and expect the bare tokens `NaN`, `Inf`, `Infinity` and their negatives; 64-bit integers must
//! survive exactly; nesting is bounded by a limit with a fixed message; a tensor's `data` may come
//! before its `datatype`, so its place in the text must be remembered and read later; and numbers must
//! go from the text straight into a typed buffer, with no tree and no allocation per element.

mod cut;
mod error;
mod number;
mod reader;
mod skip;
mod text;
mod write;

pub use cut::{Nesting, elements, members, rows};
pub(crate) use error::{Expected, JsonError};
pub(crate) use number::{Form, Number};
pub(crate) use reader::{Kind, Mark, Reader};
pub(crate) use write::{double, float, integer, string};

/// How many arrays and objects may lie within each other: Triton's limit.
pub(crate) const MAX_DEPTH: usize = 100;

#[cfg(test)]
mod tests;
