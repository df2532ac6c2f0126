//! What the batcher tells its owner, who counts it.

use std::time::Duration;

use crate::SubmitError;

/// Told what happens. Called outside the batcher's lock, from the thread where it happened; what it
/// does delays that thread.
pub trait Observer: Send + Sync + 'static {
    /// An item was queued; that many are now.
    fn admitted(&self, _queued: usize) {}
    /// An item was not queued.
    fn refused(&self, _error: &SubmitError) {}
    /// An item's time was over: [`SubmitError::Expired`] or [`SubmitError::DeadlineExceeded`].
    fn expired(&self, _error: &SubmitError) {}
    /// A queued item's caller went away.
    fn cancelled(&self) {}
    /// A device took a batch.
    fn formed(&self, _batch: &Formed) {}
}

/// A batch, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formed {
    /// Its rows.
    pub weight: usize,
    /// Its items.
    pub items: usize,
    /// How long the one of them that came first has waited.
    pub oldest_wait: Duration,
    /// How many items stay in the queue.
    pub queued: usize,
}

/// Listens to nothing.
impl Observer for () {}
