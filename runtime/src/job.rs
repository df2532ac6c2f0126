//! A request in the batcher: checked, and stripped of what only its response needs.

use std::sync::Arc;

use weir_protocol::Parameters;

use crate::backend::Part;

/// One request as the batcher sees it.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its batch size in rows.
    pub rows: usize,
    /// One per input of the signature; `None` for an optional input it left out.
    pub parts: Vec<Option<Part>>,
    /// Jobs that it can share a batch with.
    pub group: Group,
    /// Its length before and after padding.
    pub length: Option<Length>,
    /// Its parameters for the model.
    pub parameters: Arc<Parameters>,
}

/// Jobs of one group have equal shapes after padding, and the same optional inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// The model's shapes are all fixed.
    Fixed,
    /// Per input: the number of dims and the dims, batch dimension left out; -1 for an absent one.
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

/// A padded request's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Length that the client sent.
    pub own: usize,
    /// Length that the batch has.
    pub bucket: usize,
}
