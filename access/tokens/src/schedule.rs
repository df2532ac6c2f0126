//! Decides when a key set is fetched and how long it is used. The decisions have no clock.

use std::time::Duration;

use tokio::time::Instant;

/// Times of an issuer's key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Time between two fetches that succeed.
    pub(crate) refresh: Duration,
    /// Time for which a set is used after it was fetched.
    pub(crate) stale: Duration,
    /// Minimum time between the starts of two fetches, whatever tokens arrive.
    pub(crate) apart: Duration,
}

/// Fetches of one issuer so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FetchHistory {
    /// Number of fetches that were started.
    pub(crate) started: u64,
    /// Start of the last fetch.
    pub(crate) last: Option<Instant>,
    /// Number of fetches since the last one that succeeded, with the one that is in progress.
    pub(crate) failures: u32,
    /// End of the last fetch that succeeded.
    pub(crate) succeeded: Option<Instant>,
    /// Number of fetches that failed.
    pub(crate) failed: u64,
}

/// Longest time between two fetches while an issuer does not answer.
const MAX_RETRY: Duration = Duration::from_secs(60);

/// Number of doublings after which the time between two attempts is above [`MAX_RETRY`].
const MAX_DOUBLINGS: u32 = 6;

impl Timing {
    /// Creates the times of a key set. Fetches start at least 5 s apart, so a key that signs tokens as soon as it is
    /// published is known at most that much later.
    pub(crate) fn new(refresh: Duration, stale: Duration) -> Self {
        Self { refresh, stale, apart: Duration::from_secs(5) }
    }
}

impl FetchHistory {
    /// Returns the time of the next fetch if no token needs one earlier; `None` means at once.
    pub(crate) fn due(&self, timing: Timing) -> Option<Instant> {
        let backoff = || timing.apart.saturating_mul(1 << (self.failures - 1).min(MAX_DOUBLINGS)).min(MAX_RETRY);
        let wait = if self.failures == 0 { timing.refresh } else { backoff().max(timing.apart).min(timing.refresh) };
        self.last.map(|last| last + wait)
    }

    /// Returns the time before which no token may cause a fetch; `None` means at once.
    pub(crate) fn earliest(&self, timing: Timing) -> Option<Instant> {
        self.last.map(|last| last + timing.apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_fetched_on_time_and_sooner_while_fetches_fail() {
        let timing = Timing::new(Duration::from_secs(300), Duration::from_secs(3600));
        let now = crate::clock::now();
        let wait = |failures| {
            let history = FetchHistory { last: Some(now), failures, ..FetchHistory::default() };
            history.due(timing).unwrap().duration_since(now).as_secs()
        };
        assert_eq!([0, 1, 2, 3, 4, 5, 1000].map(wait), [300, 5, 10, 20, 40, 60, 60]);
        assert_eq!(FetchHistory::default().due(timing), None);
        let history = FetchHistory { last: Some(now), ..FetchHistory::default() };
        assert_eq!(history.earliest(timing), Some(now + Duration::from_secs(5)));
    }
}
