//! The items that are batched, and the terms they are submitted on.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Something that can share a batch with others of its group.
pub trait Item: Send + 'static {
    /// The property that items of one batch have in common, such as their shapes.
    type Group: Clone + Eq + Hash + Debug + Send + 'static;

    /// Rows that it adds to a batch; 0 counts as 1.
    fn weight(&self) -> usize;

    /// The group it belongs to.
    fn group(&self) -> Self::Group;
}

/// The terms on which one item is submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The priority level, 1 the most urgent; 0 and levels that do not exist mean the policy's default.
    pub priority: u32,
    /// Longest time in the queue, where the policy lets callers set it; zero sets none.
    pub timeout: Option<Duration>,
    /// Time from which an answer is of no use, wherever the item is by then.
    pub deadline: Option<Instant>,
}
