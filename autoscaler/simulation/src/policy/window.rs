//! A sliding window of values, of which policies take the sum, the mean or the most.

use std::collections::VecDeque;
use std::time::Duration;

/// Values of the last seconds, by when they were seen.
#[derive(Clone, Debug)]
pub(super) struct Window {
    length: Duration,
    values: VecDeque<(Duration, f64)>,
}

impl Window {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, values: VecDeque::new() }
    }

    /// Adds a value and forgets those that are older than the window.
    pub(super) fn add(&mut self, at: Duration, value: f64) {
        self.values.push_back((at, value));
        let oldest = at.saturating_sub(self.length);
        while self.values.front().is_some_and(|(when, _)| *when <= oldest && at >= self.length) {
            self.values.pop_front();
        }
    }

    pub(super) fn sum(&self) -> f64 {
        self.values.iter().map(|(_, value)| value).sum()
    }

    /// The mean of the values; zero when there are none.
    pub(super) fn mean(&self) -> f64 {
        self.sum() / self.values.len().max(1) as f64
    }

    pub(super) fn most(&self) -> f64 {
        self.values.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }
}

/// Whether a loop of this period is to run again at this time; if so, it is noted.
pub(super) fn is_due(last: &mut Option<Duration>, now: Duration, period: Duration) -> bool {
    let is_due = last.is_none_or(|last| now >= last + period);
    if is_due {
        *last = Some(now);
    }
    is_due
}

/// What was asked for last, as far as it was allowed: the world has a most of its own.
pub(super) fn allowed(asked: u32, desired: u32) -> u32 {
    match desired {
        // Nothing was asked for yet.
        0 => asked,
        desired => asked.min(desired),
    }
}

/// A number of replicas that is not negative and no more than any number of replicas.
pub(super) fn count(replicas: f64) -> u32 {
    // A hair above a whole number is rounding.
    (replicas - 1e-9).ceil().clamp(0.0, 1e9) as u32
}
