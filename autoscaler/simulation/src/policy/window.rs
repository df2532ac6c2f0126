//! A sliding window of values, with their sum, mean and maximum.

use std::collections::VecDeque;
use std::time::Duration;

/// Values of the last seconds, with their times.
#[derive(Clone, Debug)]
pub(super) struct Window {
    length: Duration,
    values: VecDeque<(Duration, f64)>,
}

impl Window {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, values: VecDeque::new() }
    }

    /// Adds a value and drops values older than the window.
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

    /// Returns the mean of the values; zero without values.
    pub(super) fn mean(&self) -> f64 {
        self.sum() / self.values.len().max(1) as f64
    }

    pub(super) fn most(&self) -> f64 {
        self.values.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }
}

/// Returns true, and records the time, if a loop with this period is due.
pub(super) fn is_due(last: &mut Option<Duration>, now: Duration, period: Duration) -> bool {
    let is_due = last.is_none_or(|last| now >= last + period);
    if is_due {
        *last = Some(now);
    }
    is_due
}

/// Returns the previously decided number, limited to what the world allowed.
pub(super) fn allowed(asked: u32, desired: u32) -> u32 {
    match desired {
        // The number has not been set yet.
        0 => asked,
        desired => asked.min(desired),
    }
}

/// Rounds up to a number of replicas between 0 and 1e9.
pub(super) fn count(replicas: f64) -> u32 {
    // A tiny excess over a whole number is a rounding error.
    (replicas - 1e-9).ceil().clamp(0.0, 1e9) as u32
}
