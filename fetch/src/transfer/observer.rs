//! Reports of a download: failures once, and progress with the rate of the last seconds.

use std::collections::VecDeque;
use std::time::Duration;

use crate::error::FetchError;
use crate::progress::attempt::{Attempt, Progress};

/// Number of samples, one each second, that the rate is computed from.
const SAMPLES: usize = 6;

/// Time between two reports of progress.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Passes events on to the caller of a fetch.
pub(super) struct Observer<'a> {
    observe: &'a mut (dyn FnMut(Attempt) + Send),
    /// The last report of a failure or a beginning.
    last: Option<Attempt>,
    /// Bytes on disk at each of the last reports, the latest at the end.
    samples: VecDeque<u64>,
}

impl<'a> Observer<'a> {
    pub(super) fn new(observe: &'a mut (dyn FnMut(Attempt) + Send)) -> Self {
        Self { observe, last: None, samples: VecDeque::with_capacity(SAMPLES) }
    }

    /// Reports a failure that another attempt follows. Many reads that fail for one reason make one report.
    pub(super) fn failed(&mut self, error: &FetchError) {
        let text = error.to_string();
        tracing::warn!(reason = text, "download interrupted; resuming");
        self.report(Attempt::Failed(text));
    }

    /// Reports that a server sends.
    pub(super) fn began(&mut self) {
        self.report(Attempt::Began);
    }

    fn report(&mut self, attempt: Attempt) {
        if self.last.as_ref() != Some(&attempt) {
            self.last = Some(attempt.clone());
            (self.observe)(attempt);
        }
    }

    /// Reports the bytes on disk. To be called once in each [`INTERVAL`].
    pub(super) fn progressed(&mut self, done: u64, total: Option<u64>) {
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(done);
        self.finished(done, total);
    }

    /// Reports the bytes on disk at the end, at the rate of the last seconds.
    pub(super) fn finished(&mut self, done: u64, total: Option<u64>) {
        let rate = rate(&self.samples);
        (self.observe)(Attempt::Progressed(Progress { done, total, rate }));
    }
}

/// Returns the mean of the bytes per second; 0 with less than two samples.
fn rate(samples: &VecDeque<u64>) -> u64 {
    let (Some(first), Some(last)) = (samples.front(), samples.back()) else {
        return 0;
    };
    let seconds = (samples.len() as u64 - 1) * INTERVAL.as_secs();
    last.saturating_sub(*first).checked_div(seconds).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UriQuery;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut rates = Vec::new();
        let mut observe = |attempt| {
            if let Attempt::Progressed(progress) = attempt {
                rates.push(progress.rate);
            }
        };
        let mut observer = Observer::new(&mut observe);
        for done in [1000, 1010, 1030, 1030, 1030, 1030, 1030, 1030] {
            observer.progressed(done, None);
        }
        assert_eq!(rates, [0, 10, 15, 10, 7, 6, 4, 0]);
    }

    #[test]
    fn a_failure_is_reported_once_until_the_server_sends() {
        let mut events = Vec::new();
        let mut observe = |attempt| events.push(attempt);
        let mut observer = Observer::new(&mut observe);
        let error = FetchError::Refused { uri: "http://a/x".to_owned(), status: 503, query: UriQuery::Absent };
        observer.failed(&error);
        observer.failed(&error);
        observer.began();
        observer.began();
        observer.failed(&error);
        let failed = Attempt::Failed("http://a/x answered 503".to_owned());
        assert_eq!(events, [failed.clone(), Attempt::Began, failed]);
    }
}
