//! The requests for which one request stands that sends a batch.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::queue::Credit;

/// The requests of a batch.
#[derive(Debug)]
pub(crate) struct BatchMembers {
    /// Arrival times of all requests but the last.
    pub(crate) others: Vec<Instant>,
    /// Places of all requests.
    pub(crate) places: Vec<BatchPlace>,
}

/// Place of a request in a batch, for the error if its deadline passes. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchPlace(Arc<Mutex<Option<AtReplica>>>);

/// Name of the replica that has a batch, and the time since which it has the batch.
pub(crate) type AtReplica = (Arc<str>, Instant);

impl BatchMembers {
    /// Makes the credit stand for all requests, which are at its replica from now on.
    pub(super) fn begin_attempt(&self, credit: &mut Credit) {
        credit.cover_batch(Some(&self.others));
        self.set(Some((Arc::clone(&credit.upstream.name), credit.since)));
    }

    /// Records that the requests wait for a credit again.
    pub(super) fn end_attempt(&self) {
        self.set(None);
    }

    fn set(&self, at: Option<AtReplica>) {
        self.places.iter().for_each(|place| place.0.lock().clone_from(&at));
    }
}

impl BatchPlace {
    /// Returns the replica that has the request's batch; `None` while the request waits in a queue.
    pub(crate) fn replica(&self) -> Option<AtReplica> {
        self.0.lock().clone()
    }
}
