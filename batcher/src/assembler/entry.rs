//! A queued item and its rank.

use std::time::{Duration, Instant};

use super::{ExpiredItem, Id, Member};
use crate::{SubmitError, TimeoutAction};

/// An item's position in its queue: its effective time of arrival, and a sequence number for items of the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    at: Instant,
    seq: u64,
}

impl Rank {
    /// Returns the rank of an item that arrives now on the level that is `below` levels under the first one.
    pub(super) fn new(now: Instant, ageing: Duration, below: u32, ranked: &mut u64) -> Self {
        *ranked += 1;
        let behind = ageing.min(YEAR).saturating_mul(below);
        let at = later(now, behind);
        Self { at, seq: *ranked }
    }
}

/// Maximum delay per level: longer than any process waits, and short enough that the clock can represent the delay of
/// the lowest possible level.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Returns `at + by`, or a year after `at` if the clock cannot represent the sum.
pub(super) fn later(at: Instant, by: Duration) -> Instant {
    at.checked_add(by).unwrap_or_else(|| at + YEAR)
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) item: T,
    pub(super) id: Id,
    pub(super) rank: Rank,
    pub(super) group: usize,
    pub(super) level: u32,
    pub(super) weight: usize,
    /// Estimated device time in nanoseconds, at the time of admission.
    pub(super) cost: u64,
    pub(super) arrived: Instant,
    pub(super) timeout: Option<Instant>,
    /// Length of the timeout if the item set it; `None` if the policy did.
    pub(super) own_timeout: Option<Duration>,
    pub(super) action: TimeoutAction,
    pub(super) deadline: Option<Instant>,
}

impl<T> Entry<T> {
    /// Returns the item's timeout or deadline, whichever passes first; `None` if it has neither.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.timeout.into_iter().chain(self.deadline).min()
    }

    /// Returns the time at which the item is removed from the queue without running; `None` if it may wait for any
    /// time.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        let timeout = match self.action {
            TimeoutAction::Reject => self.timeout,
            TimeoutAction::Delay => None,
        };
        timeout.into_iter().chain(self.deadline).min()
    }

    /// Returns the cause of the item's expiry, if it has expired by `now`.
    pub(super) fn expiry(&self, now: Instant) -> Option<SubmitError> {
        let passed = |at: Instant| at <= now;
        if self.deadline.is_some_and(passed) {
            let waited = now.saturating_duration_since(self.arrived);
            return Some(SubmitError::DeadlineExceeded { waited });
        }
        self.expires_at().is_some_and(passed).then_some(SubmitError::Expired { own: self.own_timeout })
    }

    pub(super) fn member(self) -> Member<T> {
        Member { id: self.id, item: self.item, arrived: self.arrived }
    }

    pub(super) fn expired(self, cause: SubmitError) -> ExpiredItem<T> {
        ExpiredItem { member: self.member(), cause }
    }
}
