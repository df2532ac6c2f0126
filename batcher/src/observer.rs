//! Events of the batcher, for statistics.

use crate::SubmitError;

/// Receiver of the batcher's events. It is called outside the batcher's lock, on the thread of the event, which it
/// delays.
pub trait Observer: Send + Sync + 'static {
    /// Records that an item was queued; `_queued` items are in the queue now.
    fn admitted(&self, _queued: usize) {}
    /// Records that an item was refused on submission.
    fn refused(&self, _error: &SubmitError) {}
    /// Records that an item expired: [`SubmitError::Expired`] or [`SubmitError::DeadlineExceeded`].
    fn expired(&self, _error: &SubmitError) {}
    /// Records that the caller of a queued item has gone.
    fn cancelled(&self) {}
    /// Records that a device took a batch.
    fn formed(&self, _batch: &BatchStats) {}
}

/// Size of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchStats {
    /// Total rows of the items.
    pub weight: usize,
    /// Number of items in the batch.
    pub items: usize,
    /// Number of items that stay in the queue.
    pub queued: usize,
}

/// Observer that ignores all events.
impl Observer for () {}
