//! Times of streamed responses: to the first byte, and between two pieces.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::credit::Credit;

/// Upper bounds of the buckets, in microseconds; a last bucket has no bound. They span a token of a small model and the
/// longest wait of a client.
const BOUNDS_US: [u64; 16] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    60_000_000,
    120_000_000,
];

/// Histograms of the streamed responses of one revision, which are recorded without a lock.
#[derive(Debug, Default)]
pub(crate) struct StreamTimes {
    /// Time from a request's arrival to the first byte of its response's body.
    pub(crate) first_byte: AtomicHistogram,
    /// Time between two pieces of a response's body.
    pub(crate) between_chunks: AtomicHistogram,
}

/// A histogram of durations with the buckets of [`BOUNDS_US`].
#[derive(Debug, Default)]
pub(crate) struct AtomicHistogram {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// Clock of one streamed response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamClock {
    /// Time of the last piece; `None` before the first one.
    last: Option<Instant>,
}

impl AtomicHistogram {
    /// Records a duration: two additions, no allocation.
    pub(crate) fn record(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns the sum of the durations in seconds.
    pub(crate) fn sum(&self) -> f64 {
        self.sum_us.load(Ordering::Relaxed) as f64 / 1e6
    }

    /// Returns the upper bound of each bucket in seconds, with the number of durations in the bucket. The last bound is
    /// infinity.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed))).collect()
    }
}

impl StreamClock {
    /// Starts the clock of a response whose body has not begun.
    pub(crate) fn new() -> Self {
        Self { last: None }
    }

    /// Records a piece of the response of `credit` that arrived at `now`.
    pub(crate) fn record(&mut self, credit: &Credit, now: Instant) {
        let times = &credit.queue().streams;
        match self.last {
            None => times.first_byte.record(credit.queued + now.saturating_duration_since(credit.since)),
            Some(last) => times.between_chunks.record(now.saturating_duration_since(last)),
        }
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = AtomicHistogram::default();
        for us in [0, 1_000, 1_001, 120_000_000, 120_000_001, u64::MAX] {
            histogram.record(Duration::from_micros(us));
        }
        let filled: Vec<_> = histogram.buckets().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.001, 2), (0.0025, 1), (120.0, 1), (f64::INFINITY, 2)]);
    }
}
