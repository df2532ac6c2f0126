//! The limit of a server that says nothing about itself, from the number of its answers per second. A value; time is
//! an argument.
//!
//! ```text
//!   settled ── all credits were in use for a window ──► trial: twice as many
//!      ▲                                                     │ more answers per second: the new limit stays,
//!      └──────────────── otherwise: the limit before ◄───────┤ and twice as many are tried next
//!                                                            ▼
//! ```
//!
//! Latency does not count. Answers of one server differ in length by a factor of a hundred, and a server that batches
//! takes longer for more requests and still answers more of them per second.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

/// Requests at once before anything is known: batching engines take as many at least, and a server that works on one
/// request at a time answers no fewer per second for the others that wait in it.
const FIRST: u32 = 64;

/// No server known to us serves more requests at once well.
const MOST: u32 = 1024;

/// Part of what a trial could gain at most, which it has to gain: with twice as many requests at once, a server that has
/// room answers twice as many per second. Less than a quarter of that may be chance.
const ENOUGH: f64 = 0.25;

/// Least answers in a window. The mean of fewer is chance.
const FEWEST: u32 = 16;

/// Longest pause before another trial, as a power of two, in windows: hours for most servers.
const LONGEST_PAUSE: u32 = 10;

/// A limit that doubles while that raises the number of answers per second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasuredLimit {
    limit: u32,
    stage: Stage,
    window: Option<Window>,
    /// Trials in a row that gained too little.
    failed: u32,
}

/// Requests of one gateway at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Requests that the gateway has there.
    pub(crate) in_flight: u32,
    /// Requests that it may have there: its share of the limit.
    pub(crate) allowed: u32,
    /// Gateways that share the limit.
    pub(crate) gateways: u32,
}

/// Stage of the search for the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// The limit stays for so many more windows before twice as many are tried.
    Settled { pause: u32 },
    /// The limit is twice `before`, with which the server answered `rate` requests per second.
    Trial { before: u32, rate: f64 },
}

/// Answers since a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    since: Instant,
    answers: u32,
}

impl MeasuredLimit {
    pub(super) fn new() -> Self {
        Self { limit: FIRST, stage: Stage::Settled { pause: 0 }, window: None, failed: 0 }
    }

    /// Requests that the server may have at once.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Notes that a request was sent; `usage` includes it. A window begins once all credits are in use.
    pub(crate) fn sent(&mut self, usage: Usage, now: Instant) {
        if self.window.is_none() && usage.is_full() {
            self.window = Some(Window::new(now));
        }
    }

    /// Notes an answer; `usage` includes its request. Where credits were free, the rate says what clients asked for,
    /// and not what the server can do; a trial ends all the same.
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

    /// Notes that the server refused a request because it is full. It says so itself what it takes, so that a trial is
    /// not repeated for long.
    pub(super) fn refused(&mut self, usage: Usage) {
        let taken = usage.in_flight.saturating_sub(1) * usage.gateways;
        self.limit = taken.clamp(1, self.limit);
        if matches!(self.stage, Stage::Trial { .. }) {
            self.failed = LONGEST_PAUSE;
        }
        self.window = None;
        self.settle();
    }

    /// A window has as many answers as there are requests at once: each was replaced once. It has twice as many once a
    /// trial has failed, so that chance seldom makes the next one succeed.
    fn answers_of_a_window(&self, usage: Usage) -> u32 {
        let rounds = if self.failed == 0 { 1 } else { 2 };
        usage.allowed.saturating_mul(rounds).max(FEWEST)
    }

    /// Decides at the end of a window.
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
                self.failed = (self.failed + 1).min(LONGEST_PAUSE);
                self.settle();
            }
        }
    }

    fn try_more(&mut self, rate: f64) {
        let before = self.limit;
        self.limit = (before * 2).min(MOST);
        self.stage = if self.limit == before { Stage::Settled { pause: 0 } } else { Stage::Trial { before, rate } };
    }

    /// Keeps the limit for a while, which doubles with each trial that failed.
    fn settle(&mut self) {
        let pause = if self.failed == 0 { 0 } else { 1 << self.failed };
        self.stage = Stage::Settled { pause };
    }
}

impl Usage {
    fn is_full(self) -> bool {
        self.in_flight >= self.allowed
    }

    /// Factor by which this gateway's answers per second have to grow in a trial. A gateway that alone sends twice as many
    /// to a server without room gets more of its answers and the others get fewer, which is no gain.
    fn least_gain(self) -> f64 {
        let gateways = f64::from(self.gateways);
        let taken_from_others = 2.0 * gateways / (gateways + 1.0);
        taken_from_others + (2.0 - taken_from_others) * ENOUGH
    }
}

impl Window {
    fn new(since: Instant) -> Self {
        Self { since, answers: 0 }
    }

    /// Answers per second until `now`.
    fn rate(self, now: Instant) -> f64 {
        let time = now.saturating_duration_since(self.since);
        f64::from(self.answers) / time.max(Duration::from_micros(1)).as_secs_f64()
    }
}
