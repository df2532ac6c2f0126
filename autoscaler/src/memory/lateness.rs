//! How long the queue has been late although there should be enough replicas.

use std::time::Duration;

/// Since when the queue has been over its target with all replicas up that were thought to be enough.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lateness {
    since: Option<Duration>,
}

impl Lateness {
    /// Notes that the queue is late, and returns for how long.
    pub(crate) fn lasts(&mut self, now: Duration) -> Duration {
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since)
    }

    /// Notes that the queue is not late, or that something was done about it.
    pub(crate) fn reset(&mut self) {
        self.since = None;
    }
}
