//! A queued item and its rank among others.

use std::time::{Duration, Instant};

use super::{ExpiredItem, Id, Member};
use crate::{SubmitError, TimeoutAction};

/// An item's position in its queue: when it counts as having come, and the order among those of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    at: Instant,
    seq: u64,
}

impl Rank {
    /// The rank of an item that comes now, `below` levels under the first.
    pub(super) fn new(now: Instant, ageing: Duration, below: u32, ranked: &mut u64) -> Self {
        *ranked += 1;
        let behind = ageing.min(YEAR).saturating_mul(below);
        let at = later(now, behind);
        Self { at, seq: *ranked }
    }
}

/// Longer than any process waits; times the highest level it still fits the clock.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// `at + by`; where the clock ends before that, a year later.
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
    /// Estimated nanoseconds of a device, as of admission.
    pub(super) cost: u64,
    pub(super) arrived: Instant,
    pub(super) timeout: Option<Instant>,
    /// The timeout's length, if it is the item's own.
    pub(super) own_timeout: Option<Duration>,
    pub(super) action: TimeoutAction,
    pub(super) deadline: Option<Instant>,
}

impl<T> Entry<T> {
    /// Its timeout or deadline, whichever passes first.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.timeout.into_iter().chain(self.deadline).min()
    }

    /// Time at which it is taken out of the queue unanswered.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        let timeout = match self.action {
            TimeoutAction::Reject => self.timeout,
            TimeoutAction::Delay => None,
        };
        timeout.into_iter().chain(self.deadline).min()
    }

    /// Cause of its expiry, if its time is over by `now`.
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
