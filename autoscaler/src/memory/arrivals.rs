//! Arrivals of the last seconds, and the rate they tell.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Sample;

/// Arrivals by the second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Arrivals {
    /// The second of the last entry, since the samples' fixed moment.
    second: u64,
    /// One count for each second, the latest last; unset where nobody reported: that is no second without
    /// requests. Not whole numbers: a count over several seconds is spread over them.
    counts: VecDeque<Option<f64>>,
    /// How much more counts vary than those of independent requests do.
    dispersion: Dispersion,
}

/// Variance of the counts over their mean: 1 where requests come independently of each other, more where
/// they come in clumps.
#[derive(Clone, Debug, PartialEq)]
struct Dispersion {
    estimate: f64,
    /// Seconds since the latest block that was measured.
    fresh: usize,
}

/// The shortest window: reports come each second and are a second late, so that one alone may be half of
/// what it seems or twice that.
const SHORTEST: usize = 2;

/// Fewest arrivals from which a short window tells a rate: fewer are worked off before a start would help.
const ENOUGH: f64 = 10.0;

/// The shortest window that lowers the rate: requests that come in clumps leave gaps, and there is no haste.
const CALM: usize = 8;

/// A short window counts as far as the mean of all is more standard deviations from it than this. Five windows are
/// looked at each second: at two, chance alone would move the rate all the time.
const SIGNIFICANT: f64 = 3.0;

/// What was seen for less than this many seconds of a new service is no rate yet.
const KNOWN: f64 = 10.0;

/// Seconds of one block of counts whose variance is measured: longer than clumps are, and several in a window.
const BLOCK: usize = 10;

/// A block that differs by more than twice what is usual is a change, not chance.
const CHANGE: f64 = 4.0;

/// Fewest requests of a block, on average, from which a variance can be told.
const FEWEST: f64 = 3.0;

/// Blocks from which the variance is known to a fifth.
const BLOCKS: f64 = 50.0;

impl Arrivals {
    /// Takes in the sample's arrivals, spread over the time in which they came, and forgets what is older
    /// than the window.
    pub(crate) fn observe(&mut self, window: Duration, sample: &Sample) {
        self.dispersion.observe(&self.counts);
        self.advance(sample.at.as_secs(), seconds(window));
        let load = &sample.load;
        let count = load.activity.arrivals;
        if load.span.is_zero() && count == 0 {
            return;
        }
        let length = load.span.as_secs_f64().round().max(1.0);
        let each = count as f64 / length;
        // What came before the window is forgotten at once.
        let within = length.min(self.counts.len() as f64) as usize;
        for count in self.counts.iter_mut().rev().take(within) {
            *count = Some(count.unwrap_or(0.0) + each);
        }
    }

    /// Requests per second: the mean of the window.
    pub(crate) fn mean(&self, window: Duration) -> f64 {
        let most = seconds(window);
        let (known, count) = self.last(most);
        count / known.max(KNOWN.min(most as f64))
    }

    /// Requests per second now: the mean of the window, brought within what each shorter window vouches for, the
    /// shortest last. So chance moves it little, and a change moves it the more the clearer it is.
    pub(crate) fn rate(&self, window: Duration) -> f64 {
        let most = seconds(window);
        let lengths = std::iter::successors(Some(SHORTEST), |length| Some(length * 2));
        let lengths: Vec<_> = lengths.take_while(|length| *length < most).collect();
        let mut rate = self.mean(window);
        for length in lengths.into_iter().rev() {
            let (known, count) = self.last(length);
            if length >= CALM && length <= self.counts.len() {
                rate = rate.min(self.bound(count, SIGNIFICANT) / known);
            }
            if count >= ENOUGH {
                // Of a new service, what was before its first second counts as silence.
                let missing = length.saturating_sub(self.counts.len());
                rate = rate.max(self.bound(count, -SIGNIFICANT) / (known + missing as f64));
            }
        }
        rate
    }

    /// Requests that came within the window.
    pub(crate) fn count(&self, window: Duration) -> f64 {
        self.last(seconds(window)).1
    }

    /// The known seconds of so many latest ones, and their count.
    fn last(&self, seconds: usize) -> (f64, f64) {
        let latest = self.counts.iter().rev().take(seconds);
        let known = latest.flatten();
        known.fold((0.0, 0.0), |(time, count), second| (time + 1.0, count + second))
    }

    /// The mean from which a count is so many standard deviations.
    fn bound(&self, count: f64, deviations: f64) -> f64 {
        let half = deviations.powi(2) * self.dispersion.estimate / 2.0;
        let reach = (half * (2.0 * count + half)).sqrt();
        (count + half + reach.copysign(deviations)).max(0.0)
    }

    fn advance(&mut self, second: u64, most: usize) {
        // Once a clock went back, what comes is still a second after the last: it must not pile up in one second until
        // the clock is where it was.
        let ahead = if self.counts.is_empty() || second < self.second { 1 } else { second - self.second };
        // After so long all is forgotten anyway; a day of silence need not be written out.
        let ahead = usize::try_from(ahead).unwrap_or(most).min(most);
        self.counts.extend(std::iter::repeat_n(None, ahead));
        self.dispersion.fresh += ahead;
        let surplus = self.counts.len().saturating_sub(most);
        self.counts.drain(..surplus);
        self.second = second;
    }
}

impl Dispersion {
    /// Takes in the latest block once it is complete, against the mean of all.
    fn observe(&mut self, counts: &VecDeque<Option<f64>>) {
        if self.fresh < BLOCK || counts.len() < 3 * BLOCK {
            return;
        }
        self.fresh = 0;
        let Some(all) = counts.iter().copied().sum::<Option<f64>>() else {
            return; // Not all is known.
        };
        let block = counts.iter().rev().take(BLOCK).copied().sum::<Option<f64>>();
        let block = block.unwrap_or_default();
        let share = BLOCK as f64 / counts.len() as f64;
        let mean = all * share;
        // Of few requests nothing can be told, and silence is no chance.
        if mean >= FEWEST && block > 0.0 {
            // The block is a part of the mean, and as such nearer to it than by itself.
            let now = (block - mean).powi(2) / (mean * (1.0 - share));
            self.estimate += (now.min(CHANGE) - self.estimate) / BLOCKS;
            self.estimate = self.estimate.max(1.0);
        }
    }
}

impl Default for Dispersion {
    fn default() -> Self {
        Self { estimate: 1.0, fresh: 0 }
    }
}

/// The whole seconds of a window: an hour at most, which is the longest that a policy may say.
fn seconds(window: Duration) -> usize {
    let seconds = window.as_secs().min(3600);
    usize::try_from(seconds).unwrap_or(3600).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use weir_cluster::Activity;

    use super::*;
    use crate::{Coverage, Load, Replicas};

    const WINDOW: Duration = Duration::from_secs(60);

    fn sample(second: u64, span: u64, arrivals: u64) -> Sample {
        let activity = Activity { arrivals, ..Activity::default() };
        Sample {
            at: Duration::from_secs(second),
            coverage: Coverage::Complete,
            load: Load { span: Duration::from_secs(span), activity },
            replicas: Replicas::default(),
        }
    }

    fn after(seconds: impl IntoIterator<Item = (u64, u64)>) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for (second, count) in seconds {
            arrivals.observe(WINDOW, &sample(second, 1, count));
        }
        arrivals
    }

    fn rate(seconds: impl IntoIterator<Item = (u64, u64)>) -> f64 {
        after(seconds).rate(WINDOW)
    }

    /// Each second with the arrivals of the part that it is in: (seconds, arrivals).
    fn parts(parts: &[(u64, u64)]) -> f64 {
        let seconds = parts.iter().flat_map(|(length, count)| (0..*length).map(|_| *count));
        rate((0..).zip(seconds))
    }

    #[test]
    fn a_steady_rate_is_seen_after_ten_seconds() {
        assert_eq!(parts(&[(10, 20)]), 20.0);
        assert_eq!(parts(&[(60, 20)]), 20.0);
    }

    #[test]
    fn few_arrivals_are_no_rate_yet() {
        assert_eq!(parts(&[(1, 6)]), 0.6);
        assert_eq!(parts(&[(59, 0), (1, 6)]), 0.1);
    }

    #[test]
    fn chance_does_not_move_it() {
        // Two deviations of a second, of two and of four.
        assert_eq!(parts(&[(59, 20), (1, 29)]), 20.15);
        assert_eq!(parts(&[(58, 20), (2, 26)]), 20.2);
        assert_eq!(parts(&[(56, 20), (4, 15)]), 19.666_666_666_666_668);
    }

    #[test]
    fn a_step_is_seen_within_seconds() {
        let risen = parts(&[(56, 10), (4, 100)]);
        assert!((84.0..=100.0).contains(&risen), "{risen}");
        let fallen = parts(&[(52, 100), (8, 10)]);
        assert!((10.0..=20.0).contains(&fallen), "{fallen}");
    }

    #[test]
    fn what_was_is_forgotten() {
        assert_eq!(parts(&[(30, 100), (60, 5)]), 5.0);
        assert_eq!(rate([(0, 600), (61, 0)]), 0.0);
    }

    #[test]
    fn a_late_report_is_spread_over_its_span() {
        for span in [30, 300] {
            let mut arrivals = after((0..60).map(|second| (second, 10)));
            arrivals.observe(WINDOW, &sample(59 + span, span, 10 * span));
            assert_eq!(arrivals.rate(WINDOW), 10.0);
        }
    }

    #[test]
    fn a_second_of_which_nobody_told_is_not_one_without_requests() {
        let mut arrivals = after((0..60).map(|second| (second, 10)));
        for second in 60..90 {
            arrivals.observe(WINDOW, &sample(second, 0, 0));
        }
        arrivals.observe(WINDOW, &sample(90, 1, 10));
        assert_eq!(arrivals.rate(WINDOW), 10.0);
    }

    #[test]
    fn clumps_are_no_change() {
        let clumps = after((0..1200).map(|second| (second, if second % 3 == 0 { 30 } else { 0 })));
        let rate = clumps.rate(WINDOW);
        assert!((9.0..=12.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_clock_that_went_back_makes_no_burst() {
        for back in [1, 20, 3600] {
            let mut arrivals = after((5000..5060).map(|second| (second, 10)));
            for second in 5060 - back..5200 {
                arrivals.observe(WINDOW, &sample(second, 1, 10));
                let rate = arrivals.rate(WINDOW);
                assert!((10.0..10.2).contains(&rate), "{second}: {rate}");
            }
        }
    }

    #[test]
    fn a_clock_that_jumps_is_borne() {
        let mut arrivals = after([(5, 10), (u64::MAX, 10), (3, 10), (0, 10)]);
        arrivals.observe(Duration::MAX, &sample(7, u64::MAX, u64::MAX));
        assert!(arrivals.rate(Duration::MAX).is_finite());
        assert!(arrivals.rate(Duration::ZERO).is_finite());
    }
}
