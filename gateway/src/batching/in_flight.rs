//! The guard of a batch in flight.

use std::sync::Arc;

use super::BatchSettings;
use crate::gateway::Gateway;
use crate::queue::RevisionQueue;

/// A batch in flight. Dropping it dispatches the batches that waited for its end.
pub(super) struct InFlightBatch {
    pub(super) gateway: Arc<Gateway>,
    pub(super) queue: Arc<RevisionQueue>,
    pub(super) settings: BatchSettings,
    /// A pointer, because the dispatched entries hold this guard.
    pub(super) dispatch: fn(&Arc<Gateway>, &Arc<RevisionQueue>, BatchSettings),
}

impl Drop for InFlightBatch {
    fn drop(&mut self) {
        self.queue.batcher.0.lock().complete();
        (self.dispatch)(&self.gateway, &self.queue, self.settings);
    }
}
