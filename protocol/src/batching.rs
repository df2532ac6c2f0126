//! Whether a model's tensors have a batch dimension.

/// How a model's tensors are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// The first dimension of every tensor counts the rows of a batch.
    FirstDimension,
    /// Tensors have no batch dimension.
    None,
}
