//! The guard of a batch in flight.

use std::sync::Arc;

use super::{BatchSettings, Batcher};
use crate::queue::RevisionQueue;

/// A batch in flight. Dropping it dispatches the batches that waited for its end.
pub(super) struct InFlightBatch {
    pub(super) batcher: Arc<Batcher>,
    pub(super) queue: Arc<RevisionQueue>,
    pub(super) settings: BatchSettings,
    /// A pointer, because the dispatched entries hold this guard.
    pub(super) dispatch: fn(&Arc<Batcher>, &Arc<RevisionQueue>, BatchSettings),
}

impl Drop for InFlightBatch {
    fn drop(&mut self) {
        self.batcher.update(&self.queue, |batches| batches.complete());
        (self.dispatch)(&self.batcher, &self.queue, self.settings);
    }
}
