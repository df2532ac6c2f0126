//! Items that are batched, and the terms on which they are submitted.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// A value that can share a batch with others of its group.
pub trait Item: Send + 'static {
    /// Property that all items of a batch have in common, such as their shapes.
    type Group: Clone + Eq + Hash + Debug + Send + 'static;

    /// Returns the number of rows that the item adds to a batch; 0 counts as 1.
    fn weight(&self) -> usize;

    /// Returns the group of the item.
    fn group(&self) -> Self::Group;
}

/// Terms on which an item is submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Priority level, of which 1 is the most urgent; 0 and levels that do not exist mean the policy's default.
    pub priority: u32,
    /// Maximum time in the queue, if the policy lets callers set it; `None` and zero set no timeout.
    pub timeout: Option<Duration>,
    /// Time after which an answer is useless, whether the item is queued or running.
    pub deadline: Option<Instant>,
}
