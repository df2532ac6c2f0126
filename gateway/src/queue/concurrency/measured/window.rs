//! Measures answers per second, with the uncertainty of the measurement.

use std::time::{Duration, Instant};

/// Answers since the start of a measurement. The answers are divided into blocks, because the variation of the blocks'
/// durations says how certain their mean is, for service times of any distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    since: Instant,
    /// Answers in a block.
    size: u32,
    /// Time at which the current block began.
    block: Instant,
    /// Answers in the current block.
    in_block: u32,
    /// Durations of the complete blocks, in seconds.
    durations: [f64; MAX_BLOCKS],
    /// Number of complete blocks.
    blocks: usize,
    /// Seconds that all answers took together.
    took: f64,
    /// Maximum number of requests that were in flight at once.
    pub(super) peak: u32,
    /// Idle if a slot stayed free while the measurement ran, so that the rate shows the demand.
    pub(super) slots: Slots,
}

/// Use of the slots in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slots {
    /// Each slot was used again at once, so more requests waited.
    Busy,
    /// A slot stayed free for some time, so no request waited then.
    Idle,
}

/// Throughput of a replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Throughput {
    /// Seconds from one answer to the next.
    pub(super) interval: f64,
    /// Standard error of the interval, relative to it.
    pub(super) error: f64,
}

/// Number of blocks at which each two are joined into one.
const MAX_BLOCKS: usize = 16;

/// Ratio of two throughputs below which already a few blocks of answers show a difference.
const BEHIND: f64 = 0.75;

/// Number of requests by Little's law, as a multiple of the maximum number in flight, above which a window is a burst.
const BURST: f64 = 1.5;

/// Maximum number of windows that are pooled.
pub(super) const MAX_WINDOWS: u32 = 64;

/// Throughput of several windows of equal length with the same limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pool {
    pub(super) mean: Throughput,
    windows: u32,
}

/// Comparison of a throughput ratio with a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ratio {
    Above,
    Below,
    /// The difference may be chance.
    Unclear,
}

impl Window {
    /// Starts a measurement with blocks of `size` answers.
    pub(super) fn new(size: u32, since: Instant) -> Self {
        Self {
            since,
            size: size.max(1),
            block: since,
            in_block: 0,
            durations: [0.0; MAX_BLOCKS],
            blocks: 0,
            took: 0.0,
            peak: 0,
            slots: Slots::Busy,
        }
    }

    /// Counts an answer. Returns true if it completes a block.
    pub(super) fn count(&mut self, in_flight: u32, took: Duration, now: Instant) -> bool {
        self.took += took.as_secs_f64();
        self.peak = self.peak.max(in_flight);
        self.in_block += 1;
        if self.in_block < self.size {
            return false;
        }
        self.durations[self.blocks] = now.saturating_duration_since(self.block).as_secs_f64();
        self.blocks += 1;
        (self.block, self.in_block) = (now, 0);
        if self.blocks == MAX_BLOCKS {
            self.join_blocks();
        }
        true
    }

    /// Joins each two blocks to one, so that the blocks become longer than the longest service times. Shorter blocks
    /// are alike, because they contain the same long requests, and would look more certain than they are.
    fn join_blocks(&mut self) {
        self.blocks = MAX_BLOCKS / 2;
        self.size = self.size.saturating_mul(2);
        for block in 0..self.blocks {
            self.durations[block] = self.durations[2 * block] + self.durations[2 * block + 1];
        }
    }

    /// Returns the number of complete blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks as u32
    }

    /// Returns the number of answers.
    pub(super) fn answers(&self) -> u32 {
        self.blocks().saturating_mul(self.size).saturating_add(self.in_block)
    }

    /// Returns the mean number of requests that the server had at once: by Little's law the answers per second, times
    /// the mean time that they took.
    pub(super) fn at_once(&self) -> u32 {
        (self.little().round() as u32).min(self.peak)
    }

    fn little(&self) -> f64 {
        self.took / f64::from(self.answers().max(1)) / self.throughput().interval
    }

    /// Returns true if the server has answered so fast that, by Little's law, it must have had clearly more requests than it had.
    /// Requests that were sent together before the window are answered together in it, so its rate will not last.
    pub(super) fn is_burst(&self) -> bool {
        self.little() > BURST * f64::from(self.peak)
    }

    /// Returns the throughput of the complete blocks.
    pub(super) fn throughput(&self) -> Throughput {
        let (blocks, durations) = (f64::from(self.blocks().max(1)), &self.durations[..self.blocks]);
        let mean = (durations.iter().sum::<f64>() / blocks).max(Duration::from_nanos(1).as_secs_f64());
        let squares: f64 = durations.iter().map(|took| (took - mean).powi(2)).sum();
        let variance = squares / (blocks - 1.0).max(1.0);
        Throughput { interval: mean / f64::from(self.size), error: (variance / blocks).sqrt() / mean }
    }

    /// Returns true if the replica answers clearly fewer requests per second than `base`.
    pub(super) fn is_behind(&self, base: Throughput, now: Instant) -> bool {
        self.is_far_behind(base, now) || self.blocks > 0 && self.throughput().ratio_to(base) < BEHIND
    }

    /// Returns true if the replica answers at less than half the rate of `base` for at least one block.
    pub(super) fn is_far_behind(&self, base: Throughput, now: Instant) -> bool {
        let expected = f64::from(self.answers() + self.size) * base.interval;
        now.saturating_duration_since(self.since).as_secs_f64() > 2.0 * expected
    }
}

impl Pool {
    /// Starts with the throughput of one window.
    pub(super) fn of(mean: Throughput) -> Self {
        Self { mean, windows: 1 }
    }

    /// Adds a window. From [`MAX_WINDOWS`] on, each window replaces a part of the older ones.
    pub(super) fn with(self, window: Throughput) -> Self {
        let windows = (self.windows + 1).min(MAX_WINDOWS);
        let new = 1.0 / f64::from(windows);
        let old = 1.0 - new;
        let interval = old * self.mean.interval + new * window.interval;
        let error = (old * self.mean.error).hypot(new * window.error);
        Self { mean: Throughput { interval, error }, windows }
    }

    /// Returns true if the standard error is at most `error`, or more windows cannot reduce it.
    pub(super) fn is_precise(&self, error: f64) -> bool {
        self.mean.error <= error || self.windows >= MAX_WINDOWS
    }
}

impl Throughput {
    /// Returns the answers per second divided by those of `base`.
    pub(super) fn ratio_to(self, base: Self) -> f64 {
        base.interval / self.interval
    }

    /// Compares the ratio to `base` with a threshold. A difference of fewer than `errors` standard errors is unclear.
    pub(super) fn compare(self, base: Self, threshold: f64, errors: f64) -> Ratio {
        let difference = (self.ratio_to(base) / threshold).ln();
        let least = errors * self.error.hypot(base.error);
        match difference {
            _ if difference > least => Ratio::Above,
            _ if difference < -least => Ratio::Below,
            _ => Ratio::Unclear,
        }
    }
}
