//! Guard of a batch in flight.

use std::sync::Arc;

use super::{BatchSettings, Batcher};
use crate::queue::RevisionQueue;

/// A batch in flight. Dropping the guard dispatches the batches that waited for its end.
pub(super) struct InFlightBatch {
    pub(super) batcher: Arc<Batcher>,
    pub(super) queue: Arc<RevisionQueue>,
    pub(super) settings: BatchSettings,
    /// A function pointer, because calling `dispatch` directly would make the modules import each other: dispatched
    /// entries hold this guard.
    pub(super) dispatch: fn(&Arc<Batcher>, &Arc<RevisionQueue>, BatchSettings),
}

impl Drop for InFlightBatch {
    fn drop(&mut self) {
        self.batcher.update(&self.queue, |batches| batches.complete());
        (self.dispatch)(&self.batcher, &self.queue, self.settings);
    }
}
