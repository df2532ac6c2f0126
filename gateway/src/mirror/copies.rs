//! The copies that one revision gets: how many may be under way, and what became of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::buffers::{Grown, Portion};
use crate::split;

/// Copies of one revision under way at once, those that wait for a replica included. At a tenth of a
/// second each that is 640 a second, a share of far more traffic than one gateway mirrors in practice; a
/// revision that hangs holds no more than these.
pub(crate) const MAX_COPIES: usize = 64;

/// What became of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// The revision answered, and not with an error of its own.
    Answered,
    /// It answered with an error, or did not answer in time or at all.
    Failed,
    /// It was not sent, because as much as may be was under way; or the gateway ended first.
    Dropped,
    /// The request's body came in a stream, or was too large to be kept: there was nothing to copy.
    Streamed,
}

/// The copies that one revision gets.
#[derive(Debug)]
pub(crate) struct Copies {
    /// Requests that might have had one.
    turns: AtomicU32,
    places: Arc<Semaphore>,
    /// In the order of [`Copied::ALL`].
    counts: [AtomicU64; Copied::ALL.len()],
}

/// Room for one copy, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    _bytes: Portion,
}

impl Copied {
    pub(crate) const ALL: [Self; 4] = [Self::Answered, Self::Failed, Self::Dropped, Self::Streamed];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
            Self::Streamed => "streamed",
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Answered => 0,
            Self::Failed => 1,
            Self::Dropped => 2,
            Self::Streamed => 3,
        }
    }
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            turns: AtomicU32::new(0),
            places: Arc::new(Semaphore::new(MAX_COPIES)),
            counts: Default::default(),
        }
    }
}

impl Copies {
    /// The luck of the next request.
    pub(super) fn luck(&self) -> u32 {
        split::luck(self.turns.fetch_add(1, Ordering::Relaxed))
    }

    /// A place for one more, whose bytes are taken from `portion`.
    pub(super) fn place(&self, mut portion: Portion, bytes: usize) -> Option<Place> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        match portion.grow(bytes) {
            Grown::Yes => Some(Place {
                _permit: permit,
                _bytes: portion,
            }),
            Grown::No => None,
        }
    }

    pub(crate) fn count(&self, copied: Copied) {
        self.counts[copied.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// How many ended so.
    pub(crate) fn counted(&self, copied: Copied) -> u64 {
        self.counts[copied.index()].load(Ordering::Relaxed)
    }
}
