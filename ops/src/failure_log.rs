//! Failures that may come with every request, as lines of a log: of each cause one line a minute.
//!
//! A model that fails each request would write thousands of lines a second otherwise, and bury all others.

use std::time::{Duration, Instant};

/// Shortest time between two lines of one cause: what alerts look at is as old as that, too.
const INTERVAL: Duration = Duration::from_secs(60);

/// The causes by which one thing, a model or a revision, has failed, and when each had its last line.
#[derive(Clone, Debug, Default)]
pub struct FailureLog {
    /// There are as many as the program has words for causes.
    causes: Vec<Cause>,
}

/// A cause that was written once at least.
#[derive(Clone, Debug)]
struct Cause {
    word: &'static str,
    /// Time of its last line.
    written: Instant,
    /// Failures that were left out since then.
    left_out: u64,
}

impl FailureLog {
    /// Notes a failure, its cause in one word of the program's own. If a line is due for it, the number of failures
    /// of this cause that had none since the last line.
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

    #[expect(clippy::disallowed_methods, reason = "times are compared; tests need a first one")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn the_first_failure_has_a_line_and_then_one_each_minute_says_how_many_had_none() {
        let (mut log, start) = (FailureLog::default(), start());
        // Two failures a second, for three minutes.
        let failures = (0..360).map(|half| (half, start + Duration::from_millis(500) * half));
        let lines = failures.filter_map(|(half, at)| Some((half / 2, log.note("model", at)?)));
        let lines: Vec<(u32, u64)> = lines.collect();
        assert_eq!(lines, [(0, 0), (60, 119), (120, 119)]);
        // Those without a line are not forgotten, however long none comes.
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
    fn times_that_come_out_of_order_write_nothing_more() {
        let (mut log, start) = (FailureLog::default(), start());
        assert_eq!(log.note("model", start + INTERVAL), Some(0));
        assert_eq!(log.note("model", start), None);
    }
}
