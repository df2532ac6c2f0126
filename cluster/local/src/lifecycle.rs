//! The lifecycle of a replica as a pure state machine: its phase, and the times of its next start and probe. Time is an
//! argument, counted from any origin.

pub(crate) mod liveness;
#[cfg(test)]
mod tests;

use std::time::Duration;

use weir_cluster::Phase;

/// Time between two probes of a replica that is not ready; short, so that a loaded model serves without delay.
const UNREADY_PERIOD: Duration = Duration::from_millis(50);

/// Time between two probes of a ready replica. A crash is noticed at once without probes, so these only detect hangs.
const READY_PERIOD: Duration = Duration::from_secs(1);

/// Delay before a restart after the first failed run in a row; it doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);

/// Longest delay before a restart: a user who corrects a file or frees memory should see the effect soon.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// A run that was ready for this long counts as a success: its end is not a failed start, and the next run begins at
/// once.
const STABLE_AFTER: Duration = Duration::from_secs(2);

/// Number of failed runs in a row that counts as a crash loop.
const CRASH_LOOP: u32 = 2;

/// State of one replica across its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lifecycle {
    phase: Phase,
    starts: u32,
    /// Number of failed runs in a row.
    failed_runs: u32,
    /// Probes in a row that failed while the replica was ready.
    failed_probes: u32,
    /// Consecutive successful probes while the replica was not ready.
    successful_probes: u32,
    thresholds: Thresholds,
    ready_since: Option<Duration>,
}

/// Numbers of consecutive probes that change a replica's readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Consecutive failed probes that make a ready replica unready; 0 means 1.
    pub(crate) failures: u32,
    /// Consecutive successful probes that make a replica ready; 0 means 1.
    pub(crate) successes: u32,
    /// Time between two consecutive probes.
    pub(crate) period: Duration,
}

/// Result of one probe of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    Success,
    Failure,
}

impl Lifecycle {
    /// Creates the lifecycle of a replica that is not started yet.
    pub(crate) fn new(thresholds: Thresholds) -> Self {
        Self {
            phase: Phase::Pending,
            starts: 0,
            failed_runs: 0,
            failed_probes: 0,
            successful_probes: 0,
            thresholds,
            ready_since: None,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Number of starts after the first.
    pub(crate) fn restarts(&self) -> u32 {
        self.starts.saturating_sub(1)
    }

    /// Returns true if the replica is in a crash loop.
    pub(crate) fn is_crash_loop(&self) -> bool {
        self.failed_runs >= CRASH_LOOP
    }

    /// Returns true if the files of the model may be the reason of the failed runs, and are to be downloaded again if no
    /// replica has loaded them before. With each further time, twice as many runs have failed, so that a large model is
    /// not downloaded all the time.
    pub(crate) fn doubts_model(&self) -> bool {
        self.is_crash_loop() && self.failed_runs.is_power_of_two()
    }

    /// Records the beginning of a run.
    pub(crate) fn started(&mut self) {
        self.phase = Phase::Starting;
        self.starts = self.starts.saturating_add(1);
        (self.failed_probes, self.successful_probes) = (0, 0);
        self.ready_since = None;
    }

    /// Records the result of a readiness probe.
    pub(crate) fn probed(&mut self, result: ProbeResult, now: Duration) {
        match (result, self.phase) {
            (ProbeResult::Success, Phase::Ready) => self.failed_probes = 0,
            (ProbeResult::Success, Phase::Starting | Phase::Unready) => {
                self.successful_probes += 1;
                if self.successful_probes >= self.thresholds.successes {
                    self.phase = Phase::Ready;
                    (self.failed_probes, self.successful_probes) = (0, 0);
                    self.ready_since.get_or_insert(now);
                }
            }
            (ProbeResult::Failure, Phase::Ready) => {
                self.failed_probes += 1;
                if self.failed_probes >= self.thresholds.failures {
                    self.phase = Phase::Unready;
                }
            }
            (ProbeResult::Failure, Phase::Starting | Phase::Unready) => self.successful_probes = 0,
            (_, Phase::Pending | Phase::BackOff | Phase::Terminating) => {}
        }
    }

    /// Records that the process exited by itself or could not be started. Returns the delay until the next start.
    pub(crate) fn ended(&mut self, now: Duration) -> Duration {
        let ready_for = self.ready_since.map(|since| now.saturating_sub(since));
        self.failed_runs = match ready_for {
            Some(ready_for) if ready_for >= STABLE_AFTER => 0,
            Some(_) | None => self.failed_runs.saturating_add(1),
        };
        self.ready_since = None;
        self.phase = Phase::BackOff;
        backoff(self.failed_runs)
    }

    /// Records that the replica hangs and is about to be killed, so that it gets no more requests.
    pub(crate) fn hung(&mut self) {
        self.phase = Phase::Unready;
    }

    /// Records that the replica is being stopped.
    pub(crate) fn stopping(&mut self) {
        self.phase = Phase::Terminating;
    }

    /// Returns the time until the next probe.
    pub(crate) fn next_probe(&self) -> Duration {
        match self.phase {
            Phase::Ready if self.failed_probes == 0 => READY_PERIOD,
            Phase::Ready => self.thresholds.period,
            Phase::Starting | Phase::Unready if self.successful_probes > 0 => self.thresholds.period,
            Phase::Pending | Phase::Starting | Phase::Unready | Phase::BackOff | Phase::Terminating => UNREADY_PERIOD,
        }
    }
}

/// Returns the delay after this many failed runs in a row.
fn backoff(failed_runs: u32) -> Duration {
    match failed_runs.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => {
            let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
            FIRST_BACKOFF.saturating_mul(factor).min(LONGEST_BACKOFF)
        }
    }
}
