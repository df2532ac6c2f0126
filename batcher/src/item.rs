//! The items that are batched, and the terms they are submitted on.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Something that can share a batch with others of its group.
pub trait Item: Send + 'static {
    /// What items of one batch have in common, such as their shapes.
    type Group: Clone + Eq + Hash + Debug + Send + 'static;

    /// The share of a batch it takes, in rows; 0 counts as 1.
    fn weight(&self) -> usize;

    /// The group it belongs to.
    fn group(&self) -> Self::Group;
}

/// What the caller asks for one item beside an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The priority level, 1 the most urgent; 0 and levels that do not exist mean the policy's default.
    pub priority: u32,
    /// How long it may wait in the queue, where the policy lets callers say so; zero says nothing.
    pub timeout: Option<Duration>,
    /// When an answer is of no use any more, wherever the item is by then.
    pub deadline: Option<Instant>,
}
