//! Events of the batcher, for statistics.

use std::time::Duration;

use crate::SubmitError;

/// A receiver of the batcher's events. Called outside the batcher's lock, from the thread where it happened; what it
/// does delays that thread.
pub trait Observer: Send + Sync + 'static {
    /// An item was queued; `_queued` items are now.
    fn admitted(&self, _queued: usize) {}
    /// An item was refused on submission.
    fn refused(&self, _error: &SubmitError) {}
    /// An item's time was over: [`SubmitError::Expired`] or [`SubmitError::DeadlineExceeded`].
    fn expired(&self, _error: &SubmitError) {}
    /// A queued item's caller went away.
    fn cancelled(&self) {}
    /// A device took a batch.
    fn formed(&self, _batch: &BatchStats) {}
}

/// Size and wait of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchStats {
    /// Rows of its items together.
    pub weight: usize,
    /// Number of its items.
    pub items: usize,
    /// Wait of the item that came first.
    pub oldest_wait: Duration,
    /// Items that stay in the queue.
    pub queued: usize,
}

/// An observer that ignores all events.
impl Observer for () {}
