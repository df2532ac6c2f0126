//! Values that an assembler takes and returns.

use std::time::{Duration, Instant};

use crate::{Item, SubmitError};

/// Identity of a queued item. An assembler never uses it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub(super) seq: u64,
    pub(super) slot: usize,
}

impl Id {
    /// Returns the number of items that were admitted before this one.
    #[must_use]
    pub fn position(self) -> u64 {
        self.seq
    }
}

/// Next step of a free device.
#[derive(Debug)]
pub enum Next<T: Item> {
    /// Run this batch now.
    Run(Batch<T>),
    /// Wait for more items until this time, which is in the future.
    WaitUntil(Instant),
    /// Wait for an item, because the queue is empty.
    Idle,
}

impl<T: Item> Next<T> {
    /// Returns the batch, if there is one to run.
    #[must_use]
    pub fn batch(self) -> Option<Batch<T>> {
        match self {
            Self::Run(batch) => Some(batch),
            Self::WaitUntil(_) | Self::Idle => None,
        }
    }
}

/// Time at which a free device has a batch to run, if no more items come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A batch can run at once.
    Now,
    /// At this time a batch can run, or an item expires.
    At(Instant),
    /// No batch runs until an item is queued.
    Never,
}

/// Items that run together as one batch.
#[derive(Debug)]
pub struct Batch<T: Item> {
    /// Number of the batch, for [`crate::Assembler::finished`].
    pub number: u64,
    /// Group of all items in the batch.
    pub group: T::Group,
    /// Total weight of the items.
    pub weight: usize,
    /// Time that the batch will probably take; zero if nothing was measured.
    pub expected: Duration,
    /// Items in the order of their ranks; at least one.
    pub members: Vec<Member<T>>,
    /// Time at which the batch was formed.
    pub formed: Instant,
}

/// An item that leaves the queue.
#[derive(Debug)]
pub struct Member<T> {
    /// Identity of the item in the queue.
    pub id: Id,
    /// The item as it was submitted.
    pub item: T,
    /// Time at which the item was admitted.
    pub arrived: Instant,
}

/// An item that has expired.
#[derive(Debug)]
pub struct ExpiredItem<T> {
    /// The item and its identity in the queue.
    pub member: Member<T>,
    /// Cause of the expiry: [`SubmitError::Expired`] or [`SubmitError::DeadlineExceeded`].
    pub cause: SubmitError,
}

/// An item that was not admitted.
#[derive(Debug)]
pub struct Refused<T> {
    /// The item, given back.
    pub item: T,
    /// Reason for the refusal.
    pub error: SubmitError,
}

/// State of a device that works asynchronously, for the start of its next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncDevice {
    /// Time at which the device will probably be free.
    pub free_at: Instant,
    /// Time in which the host prepares a batch's inputs. It is hidden if the batch is started while the device is busy.
    pub inputs: Duration,
    /// Time in which the host launches a batch once its inputs are ready.
    pub launch: Duration,
    /// Time in which the host copies the inputs of one row when it stages them; zero if nothing is staged, or the time
    /// is not known.
    pub row: Duration,
}

impl AsyncDevice {
    /// Returns the time in which the host stages this many rows.
    pub(super) fn copies(self, rows: usize) -> Duration {
        self.row.saturating_mul(u32::try_from(rows).unwrap_or(u32::MAX))
    }
}
