//! A model's interface to requests, and everything that follows from its signature alone.

use weir_protocol::Batching;

use crate::backend::{RequestTensor, ShapeTolerance, Signature, TensorConfig};
use crate::error::ServeError;
use crate::model::job::{Group, Length};
use crate::model::padding::{Padding, variable_axis};

/// A model's interface to requests.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The model's name, for messages.
    pub model: String,
    /// The model's inputs and outputs.
    pub signature: Signature,
    /// Padding buckets, if configured.
    pub padding: Option<Padding>,
}

impl Interface {
    /// The batch dimension of the model's tensors.
    #[must_use]
    pub fn batching(&self) -> Batching {
        match self.signature.max_batch_size {
            0 => Batching::None,
            _ => Batching::FirstDimension,
        }
    }

    /// Turns a model's error into the client's error if the signature is only a guess, because then the request may not
    /// be what the model takes.
    pub(crate) fn blame(&self, error: ServeError) -> ServeError {
        match (self.signature.tolerance, error) {
            (ShapeTolerance::Everything, ServeError::Model(reason)) => ServeError::Invalid(format!(
                "model '{}' rejects these inputs: {reason}. Its datatypes and shapes were guessed, because no trial \
                 run succeeded: send what the model expects, or put a request that it answers beside it as \
                 example.json",
                self.model
            )),
            (_, error) => error,
        }
    }

    /// Returns the group of jobs that a job with these parts can share a batch with.
    pub(crate) fn group(&self, parts: &[Option<RequestTensor>], length: Option<Length>) -> Group {
        let inputs = &self.signature.inputs;
        let fixed = inputs.iter().all(|input| !input.optional && variable_axis(&input.dims).is_none());
        let any_shape = match self.signature.tolerance {
            ShapeTolerance::None => false,
            ShapeTolerance::OneLeadingDim
            | ShapeTolerance::LeadingDims
            | ShapeTolerance::AnyRank
            | ShapeTolerance::Everything => true,
        };
        if fixed && !any_shape {
            return Group::Fixed;
        }
        let batched = usize::from(self.signature.max_batch_size > 0);
        let mut key = Vec::with_capacity(parts.len() * 4);
        for (part, config) in parts.iter().zip(inputs) {
            let Some(part) = part else {
                key.push(-1);
                continue;
            };
            let dims = part.shape.signed().skip(batched);
            key.push(dims.len() as i64);
            let axis = length.and_then(|_| variable_axis(model_dims(config)));
            key.extend(dims.enumerate().map(|(i, dim)| match length {
                Some(length) if Some(i) == axis => length.bucket as i64,
                _ => dim,
            }));
        }
        Group::Dims(key.into())
    }

    /// Returns the largest length of the request's inputs, before and after padding; `None` if the model has no
    /// padding, the request has no variable dimension, or no bucket is large enough.
    pub(crate) fn length(&self, parts: &[Option<RequestTensor>]) -> Option<Length> {
        let padding = self.padding.as_ref()?;
        let batched = usize::from(self.signature.max_batch_size > 0);
        let lengths = parts.iter().zip(&self.signature.inputs).filter_map(|(part, config)| {
            let dims = model_dims(config);
            let axis = variable_axis(dims)?;
            let own = part.as_ref()?.shape.dims();
            // If the client may choose the rank, the signature does not determine which axis is the length.
            own.get(axis + batched).copied().filter(|_| own.len() == dims.len() + batched)
        });
        let own = lengths.max()?;
        Some(Length { own, bucket: padding.bucket(own)? })
    }
}

/// Returns the dims that the model receives: `reshape` if it is configured, otherwise `dims`.
#[must_use]
pub(crate) fn model_dims(config: &TensorConfig) -> &[i64] {
    config.reshape.as_deref().unwrap_or(&config.dims)
}

/// Maps concrete `dims` of the pattern `from` to the pattern `to`; the sizes of the variable dimensions keep their
/// order.
pub(crate) fn reshaped(dims: &[i64], from: &[i64], to: &[i64]) -> Vec<i64> {
    let mut variable = dims.iter().zip(from).filter(|(_, want)| **want < 0).map(|(got, _)| *got);
    to.iter().map(|&dim| if dim < 0 { variable.next().unwrap_or(1) } else { dim }).collect()
}
