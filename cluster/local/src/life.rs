//! How a replica lives: its phase, and when it is started and asked again. A value; time is an argument,
//! counted from any moment.

pub(crate) mod pulse;
#[cfg(test)]
mod tests;

use std::time::Duration;

use weir_cluster::Phase;

/// Between two questions to a replica that is not ready: a model that is loaded should not wait for us.
const ASK_UNREADY: Duration = Duration::from_millis(50);

/// Between two questions to one that is: a crash is seen at once without them, so they only find hangs.
const ASK_READY: Duration = Duration::from_secs(1);

/// The wait after the first failure in a row; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// The longest wait: whoever corrects a file or frees memory should see the effect soon.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A run that was ready for so long was a success: what ended it was no failure to start, and the next
/// run begins at once.
const SUCCESS: Duration = Duration::from_secs(2);

/// Ends in a row from which on it is a crash loop.
const CRASH_LOOP: u32 = 2;

/// How one replica lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    phase: Phase,
    starts: u32,
    /// Runs in a row that were no success.
    failures: u32,
    /// Questions in a row that a ready replica did not answer well.
    misses: u32,
    /// Misses that make it unready.
    patience: u32,
    ready_since: Option<Duration>,
}

/// What a replica answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Ready,
    NotReady,
}

impl Life {
    /// Not started yet. So many bad answers in a row make a ready replica unready.
    pub(crate) fn new(patience: u32) -> Self {
        Self {
            phase: Phase::Pending,
            starts: 0,
            failures: 0,
            misses: 0,
            patience: patience.max(1),
            ready_since: None,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Starts after the first.
    pub(crate) fn restarts(&self) -> u32 {
        self.starts.saturating_sub(1)
    }

    /// Whether it failed again and again.
    pub(crate) fn is_crash_loop(&self) -> bool {
        self.failures >= CRASH_LOOP
    }

    /// Its process runs.
    pub(crate) fn started(&mut self) {
        self.phase = Phase::Starting;
        self.starts = self.starts.saturating_add(1);
        self.misses = 0;
        self.ready_since = None;
    }

    /// It was asked whether it is ready.
    pub(crate) fn answered(&mut self, answer: Answer, now: Duration) {
        match (answer, self.phase) {
            (Answer::Ready, Phase::Starting | Phase::Unready | Phase::Ready) => {
                self.phase = Phase::Ready;
                self.misses = 0;
                self.ready_since.get_or_insert(now);
            }
            (Answer::NotReady, Phase::Ready) => {
                self.misses += 1;
                if self.misses >= self.patience {
                    self.phase = Phase::Unready;
                }
            }
            (Answer::NotReady, Phase::Starting | Phase::Unready)
            | (_, Phase::Pending | Phase::BackOff | Phase::Terminating) => {}
        }
    }

    /// Its process ended by itself, or could not be started. The answer is the wait until the next start.
    pub(crate) fn ended(&mut self, now: Duration) -> Duration {
        let ready_for = self.ready_since.map(|since| now.saturating_sub(since));
        self.failures = match ready_for {
            Some(ready_for) if ready_for >= SUCCESS => 0,
            Some(_) | None => self.failures.saturating_add(1),
        };
        self.ready_since = None;
        self.phase = Phase::BackOff;
        wait(self.failures)
    }

    /// It hangs and is about to be ended: nothing new should go there.
    pub(crate) fn hangs(&mut self) {
        self.phase = Phase::Unready;
    }

    /// It is to be stopped.
    pub(crate) fn stopping(&mut self) {
        self.phase = Phase::Terminating;
    }

    /// The time until it is asked again.
    pub(crate) fn ask_again(&self) -> Duration {
        match self.phase {
            Phase::Ready if self.misses == 0 => ASK_READY,
            Phase::Ready
            | Phase::Pending
            | Phase::Starting
            | Phase::Unready
            | Phase::BackOff
            | Phase::Terminating => ASK_UNREADY,
        }
    }
}

/// The wait after so many failures in a row.
fn wait(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => {
            let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
            FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT)
        }
    }
}
