//! Arrivals of the last seconds.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Sample;

/// Arrivals by the second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Arrivals {
    /// The second of the last entry, since the samples' fixed moment.
    second: u64,
    /// One count for each second, the latest last. Not whole numbers: a count over several seconds is
    /// spread over them.
    counts: VecDeque<f64>,
}

/// The shortest window: reports come each second and are a second late, so that less would see a half of
/// what it should.
const SHORTEST: usize = 5;

/// Fewest arrivals from which a window gives a rate: ten vary by a third.
const ENOUGH: f64 = 10.0;

impl Arrivals {
    /// Takes in the sample's arrivals and forgets what is older than the window.
    pub(crate) fn observe(&mut self, window: Duration, sample: &Sample) {
        self.advance(sample.at.as_secs());
        let most = usize::try_from(window.as_secs()).unwrap_or(usize::MAX);
        let most = most.max(SHORTEST);
        while self.counts.len() > most {
            self.counts.pop_front();
        }
        let seconds = sample.load.span.as_secs_f64().round() as usize;
        let seconds = seconds.clamp(1, self.counts.len());
        let each = sample.load.activity.arrivals as f64 / seconds as f64;
        for count in self.counts.iter_mut().rev().take(seconds) {
            *count += each;
        }
    }

    /// Requests per second: the highest that any window shows which holds enough to tell. What came in
    /// the last seconds counts at once, and counts for as long as the whole window.
    pub(crate) fn rate(&self, window: Duration) -> f64 {
        let whole = window.as_secs_f64().max(SHORTEST as f64);
        let mut rate = self.counts.iter().sum::<f64>() / whole;
        let mut length = SHORTEST;
        while length < self.counts.len() || (length as f64) < whole {
            let count: f64 = self.counts.iter().rev().take(length).sum();
            if count >= ENOUGH {
                rate = rate.max(count / length as f64);
            }
            length *= 2;
        }
        rate
    }

    fn advance(&mut self, second: u64) {
        let ahead = if self.counts.is_empty() {
            1
        } else {
            second.saturating_sub(self.second)
        };
        // After so long all is forgotten anyway; a day of silence need not be written out.
        let longest = 3600;
        for _ in 0..ahead.min(longest) {
            self.counts.push_back(0.0);
        }
        self.second = self.second.max(second);
    }
}

#[cfg(test)]
mod tests {
    use weir_cluster::Activity;

    use super::*;
    use crate::{Coverage, Load, Replicas};

    const WINDOW: Duration = Duration::from_secs(60);

    fn sample(second: u64, span: u64, arrivals: u64) -> Sample {
        let activity = Activity {
            arrivals,
            ..Activity::default()
        };
        Sample {
            at: Duration::from_secs(second),
            coverage: Coverage::Complete,
            load: Load {
                span: Duration::from_secs(span),
                activity,
            },
            replicas: Replicas::default(),
        }
    }

    fn rate(seconds: impl IntoIterator<Item = (u64, u64)>) -> f64 {
        let mut arrivals = Arrivals::default();
        for (second, count) in seconds {
            arrivals.observe(WINDOW, &sample(second, 1, count));
        }
        arrivals.rate(WINDOW)
    }

    #[test]
    fn a_steady_rate_is_seen_after_five_seconds() {
        assert_eq!(rate((0..5).map(|second| (second, 20))), 20.0);
    }

    #[test]
    fn few_arrivals_are_averaged_over_the_window() {
        assert_eq!(rate([(0, 6)]), 0.1);
    }

    #[test]
    fn what_was_decays_and_is_forgotten() {
        let burst = |silence| rate([(0, 600), (silence, 0)]);
        assert_eq!(burst(4), 120.0);
        assert_eq!(burst(9), 60.0);
        assert_eq!(burst(59), 10.0);
        assert_eq!(burst(60), 0.0);
    }

    #[test]
    fn a_late_report_is_spread_over_its_span() {
        let mut arrivals = Arrivals::default();
        arrivals.observe(WINDOW, &sample(0, 1, 0));
        arrivals.observe(WINDOW, &sample(30, 30, 300));
        assert_eq!(arrivals.rate(WINDOW), 10.0);
    }
}
