//! A request as the batcher holds it: validated, without the parts that only its response needs.

use std::sync::Arc;

use weir_protocol::Parameters;

use crate::backend::RequestTensor;

/// One request as the batcher holds it.
#[derive(Clone, Debug)]
pub struct Job {
    /// Batch size of the request in rows.
    pub rows: usize,
    /// One part per input of the signature; `None` for an optional input that the request leaves out.
    pub parts: Vec<Option<RequestTensor>>,
    /// Jobs of the same group can share a batch.
    pub group: Group,
    /// Length of the request before and after padding.
    pub length: Option<Length>,
    /// The request's parameters for the model.
    pub parameters: Arc<Parameters>,
}

/// Group of jobs with equal shapes after padding and the same optional inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// The model's shapes are all fixed.
    Fixed,
    /// Per input: the number of dims and the dims, without the batch dimension; -1 for an absent input.
    Dims(Arc<[i64]>),
}

impl weir_batcher::Item for Job {
    type Group = Group;

    fn weight(&self) -> usize {
        self.rows
    }

    fn group(&self) -> Group {
        self.group.clone()
    }
}

/// The length of a padded request, in elements along its variable dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Length that the client sent.
    pub own: usize,
    /// Length that the batch has.
    pub bucket: usize,
}
