//! The crate's only clock: how long the parts of a run took.

use std::time::{Duration, Instant};

/// Measures one part after the other.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    lap: Instant,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { lap: now() }
    }

    /// The time since the last lap, or since the start.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = now();
        let lap = now - self.lap;
        self.lap = now;
        lap
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "only reports what a run took, and decides nothing"
)]
fn now() -> Instant {
    Instant::now()
}
