//! Whether what was calculated turns out right.

use std::time::Duration;

/// How long the queue has been over its target with all replicas up that were thought to be enough.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Watch {
    since: Option<Duration>,
}

impl Watch {
    /// How long it has been so.
    pub(crate) fn late(&mut self, now: Duration) -> Duration {
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since)
    }

    /// It is not so, or something was done about it.
    pub(crate) fn reset(&mut self) {
        self.since = None;
    }
}
