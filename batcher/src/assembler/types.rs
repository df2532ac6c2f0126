//! The values that go into an assembler and come out of it.

use std::time::{Duration, Instant};

use crate::{Item, SubmitError};

/// A queued item's identity. Never used twice by one assembler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub(super) seq: u64,
    pub(super) slot: usize,
}

impl Id {
    /// Number of items admitted before it.
    #[must_use]
    pub fn position(self) -> u64 {
        self.seq
    }
}

/// The next step of a free device.
#[derive(Debug)]
pub enum Next<T: Item> {
    /// Run this batch now.
    Run(Batch<T>),
    /// Wait for companions or this moment, which is in the future.
    WaitUntil(Instant),
    /// Wait: nothing is queued.
    Idle,
}

impl<T: Item> Next<T> {
    /// The batch, if there is one to run.
    #[must_use]
    pub fn batch(self) -> Option<Batch<T>> {
        match self {
            Self::Run(batch) => Some(batch),
            Self::WaitUntil(_) | Self::Idle => None,
        }
    }
}

/// Time at which a free device has a batch to run, if nothing else comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A batch can run at once.
    Now,
    /// At that moment, or an item's time is over then.
    At(Instant),
    /// Not before an item is queued.
    Never,
}

/// Items that run together.
#[derive(Debug)]
pub struct Batch<T: Item> {
    /// Its number, for [`crate::Assembler::finished`].
    pub number: u64,
    /// The group all its items are of.
    pub group: T::Group,
    /// The sum of its items' weights.
    pub weight: usize,
    /// Time it will probably take; zero while nothing was measured.
    pub expected: Duration,
    /// Its items in their order; at least one.
    pub members: Vec<Member<T>>,
    /// Time at which it was formed.
    pub formed: Instant,
}

/// An item that leaves the queue.
#[derive(Debug)]
pub struct Member<T> {
    /// Its identity in the queue.
    pub id: Id,
    /// The item as it was submitted.
    pub item: T,
    /// Time of its admission.
    pub arrived: Instant,
}

/// An item whose time is over.
#[derive(Debug)]
pub struct ExpiredItem<T> {
    /// The item and its identity in the queue.
    pub member: Member<T>,
    /// The cause: [`SubmitError::Expired`] or [`SubmitError::DeadlineExceeded`].
    pub cause: SubmitError,
}

/// An item that was not admitted.
#[derive(Debug)]
pub struct Refused<T> {
    /// The item, given back.
    pub item: T,
    /// Cause of the refusal.
    pub error: SubmitError,
}
