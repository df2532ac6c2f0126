//! Limits and counts the copies for one revision.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_serve::byte_budget::BudgetPermit;

use crate::router::split;

/// Maximum number of copies of one revision in flight, including those that wait for a replica. At a tenth of a second
/// per copy that is 640 copies a second, which is enough for far more traffic than one gateway mirrors in practice. A
/// revision that hangs holds no more than this.
pub(crate) const MAX_COPIES: usize = 64;

/// Outcome of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MirrorOutcome {
    /// The revision answered without an error of its own.
    Answered,
    /// The revision answered with an error, too late, or not at all.
    Failed,
    /// The copy was not sent because a limit was reached, or the gateway stopped first.
    Dropped,
    /// The request's body was streamed or too large for the buffer, so there was nothing to copy.
    Streamed,
}

/// Counts and permits of the copies for one revision.
#[derive(Debug)]
pub(crate) struct MirrorCounts {
    /// Number of requests for which sampling was decided; the position in the sampling sequence.
    samples: AtomicU32,
    permits: Arc<Semaphore>,
    /// Counts in the order of [`MirrorOutcome::ALL`].
    counts: [AtomicU64; MirrorOutcome::ALL.len()],
}

/// Permission for one copy, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct MirrorPermit {
    _permit: OwnedSemaphorePermit,
    _bytes: BudgetPermit,
}

impl MirrorOutcome {
    pub(crate) const ALL: [Self; 4] = [Self::Answered, Self::Failed, Self::Dropped, Self::Streamed];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
            Self::Streamed => "streamed",
        }
    }
}

impl Default for MirrorCounts {
    fn default() -> Self {
        Self { samples: AtomicU32::new(0), permits: Arc::new(Semaphore::new(MAX_COPIES)), counts: Default::default() }
    }
}

impl MirrorCounts {
    /// Returns the position of the next request in the sampling sequence, 0..2^32.
    pub(super) fn next_sample(&self) -> u32 {
        split::sample(self.samples.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a permit for one more copy, with its body charged to `budget`; `None` if a limit is reached.
    pub(super) fn try_acquire(&self, budget: BudgetPermit, bytes: usize) -> Option<MirrorPermit> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        budget.grow(bytes).ok()?;
        Some(MirrorPermit { _permit: permit, _bytes: budget })
    }

    pub(crate) fn count(&self, outcome: MirrorOutcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of copies with this outcome.
    pub(crate) fn counted(&self, outcome: MirrorOutcome) -> u64 {
        self.counts[outcome as usize].load(Ordering::Relaxed)
    }
}
