//! Rate limit on log lines about failures that may occur with every request: one line per minute and cause.
//!
//! A model that fails each request would otherwise write thousands of lines a second, and bury all other lines.

use std::time::{Duration, Instant};

/// Shortest time between two log lines of one cause. Alerts are commonly evaluated about as often.
const INTERVAL: Duration = Duration::from_secs(60);

/// Causes of failures of one model, revision or port, each with the time of its last log line.
#[derive(Clone, Debug, Default)]
pub struct FailureLog {
    /// Bounded, because the program has a fixed set of words for causes.
    causes: Vec<Cause>,
}

/// A cause that has been logged at least once.
#[derive(Clone, Debug)]
struct Cause {
    word: &'static str,
    /// Time of the cause's last log line.
    written: Instant,
    /// Failures since the last line that were not logged.
    left_out: u64,
}

impl FailureLog {
    /// Records a failure with its cause, a word from the program's fixed set. If a line is due, returns the number of
    /// failures of this cause that were not logged since the last line; otherwise returns `None`.
    pub fn note(&mut self, word: &'static str, now: Instant) -> Option<u64> {
        let known = self.causes.iter_mut().find(|cause| cause.word == word);
        let Some(cause) = known else {
            let (written, left_out) = (now, 0);
            self.causes.push(Cause { word, written, left_out });
            return Some(left_out);
        };
        if now.saturating_duration_since(cause.written) < INTERVAL {
            cause.left_out += 1;
            return None;
        }
        cause.written = now;
        Some(std::mem::take(&mut cause.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the test needs a start time to compute later times from")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn the_first_failure_is_logged_and_then_one_line_a_minute_counts_the_omitted_ones() {
        let (mut log, start) = (FailureLog::default(), start());
        // Two failures a second, for three minutes.
        let failures = (0..360).map(|half| (half, start + Duration::from_millis(500) * half));
        let lines = failures.filter_map(|(half, at)| Some((half / 2, log.note("model", at)?)));
        let lines: Vec<(u32, u64)> = lines.collect();
        assert_eq!(lines, [(0, 0), (60, 119), (120, 119)]);
        // Failures without a line are counted until the next line, however long that takes.
        let later = start + Duration::from_secs(3600);
        assert_eq!(log.note("model", later), Some(119));
        assert_eq!(log.note("model", later + INTERVAL), Some(0));
    }

    #[test]
    fn each_cause_has_its_own_line() {
        let (mut log, start) = (FailureLog::default(), start());
        assert_eq!(log.note("model", start), Some(0));
        assert_eq!(log.note("memory", start), Some(0));
        assert_eq!(log.note("model", start), None);
        let later = start + INTERVAL;
        assert_eq!(log.note("memory", later), Some(0));
        assert_eq!(log.note("model", later), Some(1));
    }

    #[test]
    fn a_time_before_the_last_line_writes_no_line() {
        let (mut log, start) = (FailureLog::default(), start());
        assert_eq!(log.note("model", start + INTERVAL), Some(0));
        assert_eq!(log.note("model", start), None);
    }
}
