//! A queued request, which leaves the queue when it is dropped.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{RevisionQueue, Wakeup};

pub(super) struct Waiter {
    queue: Arc<RevisionQueue>,
    sequence: u64,
    wakeup: oneshot::Receiver<Wakeup>,
}

impl Waiter {
    pub(super) fn new(queue: &Arc<RevisionQueue>, sequence: u64, wakeup: oneshot::Receiver<Wakeup>) -> Self {
        Self { queue: Arc::clone(queue), sequence, wakeup }
    }

    /// Waits until it is dequeued; `None` if its deadline passed, or the revision is gone.
    pub(super) async fn wakeup(&mut self) -> Option<Wakeup> {
        (&mut self.wakeup).await.ok()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // A credit granted in this moment is dropped with the receiver, and so given back.
        self.queue.leave(self.sequence);
    }
}
