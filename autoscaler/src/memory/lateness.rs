//! Time for which the queue has been late although enough replicas should be ready.

use std::time::Duration;

/// Time since when the queue has been over its target with all calculated replicas ready.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lateness {
    since: Option<Duration>,
}

impl Lateness {
    /// Records that the queue is late, and returns for how long it has been.
    pub(crate) fn lasts(&mut self, now: Duration) -> Duration {
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since)
    }

    /// Records that the queue is not late, or that a replica was added because of it.
    pub(crate) fn reset(&mut self) {
        self.since = None;
    }
}
