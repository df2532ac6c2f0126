//! What was answered while it was measured.

use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;

/// Latencies are kept to three digits.
const DIGITS: u8 = 3;

/// The longest latency told apart, in nanoseconds: ten minutes, beyond what any run waits.
const LONGEST: u64 = 600_000_000_000;

/// Counts of a run. Closed loops count answers that came in the window, open loops those whose request
/// was meant for it.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) window: (Instant, Instant),
    /// Nanoseconds.
    pub(crate) latencies: Histogram<u64>,
    pub(crate) errors: u64,
    /// The first of them, in words.
    pub(crate) first_error: Option<String>,
    /// All answers, of the warm-up too.
    pub(crate) answers: u64,
}

impl Tally {
    pub(crate) fn new(start: Instant, duration: Duration) -> anyhow::Result<Self> {
        Ok(Self {
            window: (start, start + duration),
            latencies: Histogram::new_with_max(LONGEST, DIGITS).context("histogram")?,
            errors: 0,
            first_error: None,
            answers: 0,
        })
    }

    /// Counts an answer that belongs to the moment `at`.
    pub(crate) fn answered(&mut self, at: Instant, latency: Duration) {
        if at >= self.window.0 && at < self.window.1 {
            self.latencies.saturating_record(latency.as_nanos() as u64);
        }
    }

    /// Counts a request that was not answered as it should; those of the warm-up count too.
    pub(crate) fn failed(&mut self, error: &anyhow::Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| format!("{error:#}"));
    }
}
