//! Estimate of the start time, as an autoscaler would measure it.

use std::collections::VecDeque;
use std::time::Duration;

/// Durations of the latest starts of a service.
pub(super) struct StartEstimate {
    latest: VecDeque<Duration>,
    /// Start time that is assumed before the first start.
    assumed: Duration,
}

/// Number of starts that are remembered, the same as in the autoscaler.
const KEPT: usize = 32;

impl StartEstimate {
    pub(super) fn new(assumed: Duration) -> Self {
        Self { latest: VecDeque::new(), assumed }
    }

    pub(super) fn add(&mut self, took: Duration) {
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back(took);
    }

    /// Returns the 0.9 quantile of the start times.
    pub(super) fn time(&self) -> Duration {
        let mut sorted: Vec<_> = self.latest.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (sorted.len() * 9).div_ceil(10);
        let found = rank.checked_sub(1).and_then(|index| sorted.get(index));
        found.copied().unwrap_or(self.assumed)
    }
}
