//! A queued request that leaves the queue when it is dropped.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::RevisionQueue;
use super::queue_state::Wakeup;

pub(super) struct Waiter {
    queue: Arc<RevisionQueue>,
    sequence: u64,
    wakeup: oneshot::Receiver<Wakeup>,
}

impl Waiter {
    pub(super) fn new(queue: &Arc<RevisionQueue>, sequence: u64, wakeup: oneshot::Receiver<Wakeup>) -> Self {
        Self { queue: Arc::clone(queue), sequence, wakeup }
    }

    /// Waits until the request is dequeued; `None` if its deadline passed or the revision is gone.
    pub(super) async fn wakeup(&mut self) -> Option<Wakeup> {
        (&mut self.wakeup).await.ok()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // If a credit is granted at this moment, it is dropped with the receiver and thereby given back.
        self.queue.leave(self.sequence);
    }
}
