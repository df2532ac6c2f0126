//! Batch dimension of a model's tensors.

/// Layout of a model's tensors: with or without a batch dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// The first dimension of every tensor counts the rows of a batch.
    FirstDimension,
    /// Tensors have no batch dimension.
    None,
}
