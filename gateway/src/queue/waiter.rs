//! A place in the queue, given up when it is dropped.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{RevisionQueue, Wakeup};

pub(super) struct Waiter {
    queue: Arc<RevisionQueue>,
    sequence: u64,
    wakeup: oneshot::Receiver<Wakeup>,
}

impl Waiter {
    pub(super) fn new(
        queue: &Arc<RevisionQueue>,
        sequence: u64,
        wakeup: oneshot::Receiver<Wakeup>,
    ) -> Self {
        Self {
            queue: Arc::clone(queue),
            sequence,
            wakeup,
        }
    }

    /// What it gets; nothing if it waited too long.
    pub(super) async fn wakeup(&mut self) -> Option<Wakeup> {
        (&mut self.wakeup).await.ok()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // A credit that came in this very moment is dropped with the receiver, and so given back.
        self.queue.leave(self.sequence);
    }
}
