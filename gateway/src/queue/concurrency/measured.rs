//! The concurrency limit of a server that reports no capacity, measured from its responses per second. A pure value:
//! the time is an argument.
//!
//! ```text
//!   settled ── all credits were in use for a window ──► trial: twice as many
//!      ▲                                                     │ more answers per second: the new limit stays,
//!      └──────────────── otherwise: the limit before ◄───────┤ and twice as many are tried next
//!                                                            ▼
//! ```
//!
//! Latency is ignored. Response times of one server differ by a factor of a hundred, and a server that batches takes
//! longer for more requests but still answers more of them per second.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

/// Limit before anything is measured. Batching engines take at least as many requests, and a server that works on one
/// request at a time has the same throughput with the others waiting inside it.
const INITIAL_LIMIT: u32 = 64;

/// Highest limit: no server known to us benefits from more concurrent requests.
const MAX_LIMIT: u32 = 1024;

/// Fraction of the largest possible gain that a trial has to reach. With twice as many requests at once, a server with
/// spare capacity answers twice as many per second. Less than a quarter of that gain may be chance.
const MIN_GAIN: f64 = 0.25;

/// Least number of answers in a window. The mean of fewer answers varies too much.
const MIN_ANSWERS: u32 = 16;

/// Longest pause before another trial, as a power of two, in windows: hours for most servers.
const MAX_PAUSE_EXPONENT: u32 = 10;

/// A limit that is doubled as long as doubling raises the number of responses per second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasuredLimit {
    limit: u32,
    stage: Stage,
    window: Option<Window>,
    /// Trials in a row that gained too little.
    failed: u32,
}

/// Requests that one gateway has at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Requests of the gateway that are at the replica.
    pub(crate) in_flight: u32,
    /// Requests that the gateway may have there: its share of the limit.
    pub(crate) allowed: u32,
    /// Gateways that share the limit.
    pub(crate) gateways: u32,
}

/// Stage of the search for the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// The limit stays for `pause` more windows before twice as many requests are tried.
    Settled { pause: u32 },
    /// The limit is twice `before`, at which the server answered `rate` requests per second.
    Trial { before: u32, rate: f64 },
}

/// Answers since the start of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    since: Instant,
    answers: u32,
}

impl MeasuredLimit {
    pub(super) fn new() -> Self {
        Self { limit: INITIAL_LIMIT, stage: Stage::Settled { pause: 0 }, window: None, failed: 0 }
    }

    /// Returns the number of requests that the server may have at once.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Records that a request was sent; `usage` includes it. A window begins once all credits are in use.
    pub(crate) fn sent(&mut self, usage: Usage, now: Instant) {
        if self.window.is_none() && usage.is_full() {
            self.window = Some(Window::new(now));
        }
    }

    /// Records an answer; `usage` includes its request. If credits were free, the rate shows the demand of the clients
    /// instead of the server's capacity, so a settled limit drops the window. A trial keeps its window, so that the
    /// trial ends.
    pub(super) fn answered(&mut self, usage: Usage, now: Instant) {
        if matches!(self.stage, Stage::Settled { .. }) && !usage.is_full() {
            self.window = None;
            return;
        }
        let wanted = self.answers_of_a_window(usage);
        let Some(window) = &mut self.window else {
            return;
        };
        window.answers += 1;
        if window.answers >= wanted {
            let rate = window.rate(now);
            self.window = usage.is_full().then(|| Window::new(now));
            self.judge(rate, usage);
        }
    }

    /// Records that the server refused a request because it is full. The limit becomes the number of requests that the
    /// server has. During a trial, the refusal shows the server's capacity, so the next trial comes after the longest
    /// pause.
    pub(super) fn refused(&mut self, usage: Usage) {
        let taken = usage.in_flight.saturating_sub(1) * usage.gateways;
        self.limit = taken.clamp(1, self.limit);
        if matches!(self.stage, Stage::Trial { .. }) {
            self.failed = MAX_PAUSE_EXPONENT;
        }
        self.window = None;
        self.settle();
    }

    /// Returns the number of answers in a window. By default each concurrent request is replaced once. After a failed
    /// trial a window is twice as long, so that the next trial rarely succeeds by chance.
    fn answers_of_a_window(&self, usage: Usage) -> u32 {
        let rounds = if self.failed == 0 { 1 } else { 2 };
        usage.allowed.saturating_mul(rounds).max(MIN_ANSWERS)
    }

    /// Decides the next stage at the end of a window.
    fn judge(&mut self, rate: f64, usage: Usage) {
        match self.stage {
            Stage::Settled { pause: 0 } => self.try_more(rate),
            Stage::Settled { pause } => self.stage = Stage::Settled { pause: pause - 1 },
            Stage::Trial { rate: before, .. } if rate >= before * usage.least_gain() => {
                self.failed = 0;
                if usage.is_full() {
                    self.try_more(rate);
                } else {
                    self.settle();
                }
            }
            Stage::Trial { before, .. } => {
                self.limit = before;
                self.failed = (self.failed + 1).min(MAX_PAUSE_EXPONENT);
                self.settle();
            }
        }
    }

    fn try_more(&mut self, rate: f64) {
        let before = self.limit;
        self.limit = (before * 2).min(MAX_LIMIT);
        self.stage = if self.limit == before { Stage::Settled { pause: 0 } } else { Stage::Trial { before, rate } };
    }

    /// Keeps the limit for a pause that doubles with each failed trial.
    fn settle(&mut self) {
        let pause = if self.failed == 0 { 0 } else { 1 << self.failed };
        self.stage = Stage::Settled { pause };
    }
}

impl Usage {
    fn is_full(self) -> bool {
        self.in_flight >= self.allowed
    }

    /// Returns the factor by which this gateway's answers per second have to grow in a trial. If one gateway alone
    /// doubles its requests to a server without spare capacity, it takes answers from the other gateways, which is no
    /// gain.
    fn least_gain(self) -> f64 {
        let gateways = f64::from(self.gateways);
        let taken_from_others = 2.0 * gateways / (gateways + 1.0);
        taken_from_others + (2.0 - taken_from_others) * MIN_GAIN
    }
}

impl Window {
    fn new(since: Instant) -> Self {
        Self { since, answers: 0 }
    }

    /// Returns the answers per second until `now`.
    fn rate(self, now: Instant) -> f64 {
        let time = now.saturating_duration_since(self.since);
        f64::from(self.answers) / time.max(Duration::from_micros(1)).as_secs_f64()
    }
}
