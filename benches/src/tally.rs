//! Counts of responses, latencies and errors.

use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;

/// Number of significant digits of recorded latencies.
const DIGITS: u8 = 3;

/// Longest recorded latency in nanoseconds: ten minutes, longer than any run waits.
const MAX_LATENCY: u64 = 600_000_000_000;

/// Counts of a run. A closed loop counts the responses that arrive in the window, an open loop those whose requests
/// were scheduled in the window.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) window: (Instant, Instant),
    /// Histogram of latencies in nanoseconds.
    pub(crate) latencies: Histogram<u64>,
    pub(crate) errors: u64,
    /// Message of the first error.
    pub(crate) first_error: Option<String>,
    /// Number of responses, including those of the warm-up.
    pub(crate) responses: u64,
}

impl Tally {
    pub(crate) fn new(start: Instant, duration: Duration) -> anyhow::Result<Self> {
        Ok(Self {
            window: (start, start + duration),
            latencies: Histogram::new_with_max(MAX_LATENCY, DIGITS).context("histogram")?,
            errors: 0,
            first_error: None,
            responses: 0,
        })
    }

    /// Counts a response if `at` is in the window.
    pub(crate) fn record(&mut self, at: Instant, latency: Duration) {
        if at >= self.window.0 && at < self.window.1 {
            self.latencies.saturating_record(latency.as_nanos() as u64);
        }
    }

    /// Counts a failed request, even in the warm-up.
    pub(crate) fn failed(&mut self, error: &anyhow::Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| format!("{error:#}"));
    }
}
