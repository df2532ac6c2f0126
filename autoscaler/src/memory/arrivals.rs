//! Arrivals of the last seconds, and the rate estimated from them.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Sample;

/// Numbers of arrivals per second of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Arrivals {
    /// Second of the last entry, since the samples' fixed moment.
    second: u64,
    /// Totals since the first sample at the end of each second, the latest last, and before them the total at the
    /// beginning of the window. The sum of any number of latest seconds is the difference of two totals.
    totals: VecDeque<Sum>,
    /// Excess variation of the counts over that of independent requests.
    dispersion: Dispersion,
    latest: Estimate,
}

/// Arrivals within the window, at the last observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Mean rate over the window, in requests per second.
    pub(crate) mean: f64,
    /// Current rate, in requests per second: the mean of the window, limited to the confidence interval of each shorter
    /// window, the shortest last. Chance therefore moves the rate little, and a change moves it the more, the clearer
    /// the change is.
    pub(crate) rate: f64,
    /// Number of requests that arrived within the window.
    pub(crate) count: f64,
}

/// Sum over some seconds. A second in which no gateway reported is not known, which differs from a second without
/// requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    /// Number of seconds that are known.
    known: u64,
    /// Arrivals in [`UNIT`] parts of a request. Integers make the difference of two totals exact. The totals may wrap.
    parts: u64,
}

/// Parts of a request that are counted. A count over several seconds is spread over them, so each gets a fraction.
const UNIT: u64 = 1 << 20;

/// Index of dispersion: variance of the counts over their mean. It is 1 if requests arrive independently, and more if
/// they arrive in bursts.
#[derive(Clone, Debug, PartialEq)]
struct Dispersion {
    estimate: f64,
    /// Seconds since the end of the last measured block.
    fresh: usize,
}

/// Shortest window in seconds. Reports come every second and are up to a second late, so the count of one second alone
/// may be half or twice the true one.
const SHORTEST: usize = 2;

/// Least arrivals from which a short window yields a rate. Fewer are served before a start would help.
const ENOUGH: f64 = 10.0;

/// Shortest window, in seconds, that can lower the rate. Bursts leave gaps, and there is no hurry to lower it.
const CALM: usize = 8;

/// Standard deviations by which a short window must differ from the overall mean to move the rate. Five windows are
/// checked every second; with two deviations, chance alone would move the rate all the time.
const SIGNIFICANT: f64 = 3.0;

/// Least seconds over which a mean is taken: fewer seconds of a new service do not yield a full rate.
const KNOWN: f64 = 10.0;

/// Seconds of a block of counts whose variance is measured. A block is longer than a burst, and several fit a window.
const BLOCK: usize = 10;

/// Limit of a block's squared deviation, in units of the usual variance. A block that deviates more than twice as far
/// as usual is a change of the load, not chance.
const CHANGE: f64 = 4.0;

/// Least mean number of requests per block from which a variance is estimated.
const FEWEST: f64 = 3.0;

/// Number of blocks over which the variance is averaged; it is then known to within a fifth.
const BLOCKS: f64 = 50.0;

impl Arrivals {
    /// Adds the sample's arrivals, and drops what is older than the window.
    pub(crate) fn observe(&mut self, window: Duration, sample: &Sample) {
        self.measure_dispersion();
        let most = seconds(window);
        self.advance(sample.at.as_secs(), most);
        self.add(sample);
        self.latest = self.estimate(most);
    }

    /// Returns the arrivals within the window, at the last observation.
    pub(crate) fn latest(&self) -> Estimate {
        self.latest
    }

    /// Adds the sample's arrivals, spread over the time in which they came.
    fn add(&mut self, sample: &Sample) {
        let load = &sample.load;
        let count = load.activity.arrivals;
        if load.span.is_zero() && count == 0 {
            return;
        }
        let length = load.span.as_secs_f64().round().max(1.0) as u64;
        let parts = count.saturating_mul(UNIT);
        // The parts that do not divide evenly belong to the first seconds.
        let (each, rest) = (parts / length, parts % length);
        // Arrivals from before the window are dropped at once.
        let within = usize::try_from(length).unwrap_or(usize::MAX).min(self.seconds());
        let dropped = length - within as u64;
        let first = self.totals.len() - within;
        let (mut added, mut before) = (Sum::default(), self.totals[first - 1]);
        for (second, total) in (dropped..length).zip(self.totals.range_mut(first..)) {
            let was_known = total.known > before.known;
            before = *total;
            added.known += u64::from(!was_known);
            added.parts = added.parts.wrapping_add(each + u64::from(second < rest));
            *total = total.plus(added);
        }
    }

    /// Calculates the rates. The time that this takes does not depend on the length of the window.
    fn estimate(&self, most: usize) -> Estimate {
        let all = self.sum(most);
        if all.parts == 0 {
            return Estimate::default();
        }
        let mean = all.count() / all.seconds().max(KNOWN.min(most as f64));
        let mut rate = mean;
        let mut length = 1 << (most - 1).ilog2();
        while length >= SHORTEST {
            rate = self.limit(rate, length);
            length /= 2;
        }
        Estimate { mean, rate, count: all.count() }
    }

    /// Limits the rate to the confidence interval of a window of this many seconds. The interval holds the mean of the
    /// window, so only one of its bounds can matter.
    fn limit(&self, rate: f64, length: usize) -> f64 {
        let sum = self.sum(length);
        // For a new service, the time before its first second counts as time without requests.
        let missing = length.saturating_sub(self.seconds());
        let seconds = sum.seconds() + missing as f64;
        if rate > sum.count() / seconds {
            let lowers = length >= CALM && missing == 0;
            if lowers { rate.min(self.bound(sum.count(), SIGNIFICANT) / seconds) } else { rate }
        } else if sum.count() >= ENOUGH {
            rate.max(self.bound(sum.count(), -SIGNIFICANT) / seconds)
        } else {
            rate
        }
    }

    /// Returns the mean for which `count` lies this many standard deviations off.
    fn bound(&self, count: f64, deviations: f64) -> f64 {
        let half = deviations.powi(2) * self.dispersion.estimate / 2.0;
        let reach = (half * (2.0 * count + half)).sqrt();
        (count + half + reach.copysign(deviations)).max(0.0)
    }

    /// Measures the dispersion of the latest block, once it is complete.
    fn measure_dispersion(&mut self) {
        let seconds = self.seconds();
        if self.dispersion.fresh >= BLOCK && seconds >= 3 * BLOCK {
            let (all, block) = (self.sum(seconds), self.sum(BLOCK));
            self.dispersion.observe(seconds, all, block);
        }
    }

    fn advance(&mut self, second: u64, most: usize) {
        // If the clock went back, each sample still advances by a second. Otherwise the counts would pile up in one
        // second until the clock has caught up.
        let ahead = if self.totals.is_empty() || second < self.second { 1 } else { second - self.second };
        // Longer gaps clear the whole window, so a day of silence is not written out.
        let ahead = usize::try_from(ahead).unwrap_or(most).min(most);
        let last = self.totals.back().copied().unwrap_or_default();
        if self.totals.is_empty() {
            self.totals.push_back(last);
        }
        for _ in 0..ahead {
            self.totals.push_back(last);
        }
        while self.totals.len() > most + 1 {
            self.totals.pop_front();
        }
        self.dispersion.fresh += ahead;
        self.second = second;
    }

    /// Returns the number of seconds since the first sample, at most those of the window.
    fn seconds(&self) -> usize {
        self.totals.len().saturating_sub(1)
    }

    /// Returns the sum over this many latest seconds, or over all of them if there are fewer.
    fn sum(&self, seconds: usize) -> Sum {
        let Some(last) = self.totals.back() else {
            return Sum::default();
        };
        let first = self.seconds().saturating_sub(seconds);
        last.since(self.totals[first])
    }
}

impl Sum {
    fn seconds(self) -> f64 {
        self.known as f64
    }

    /// Returns the number of requests.
    fn count(self) -> f64 {
        self.parts as f64 / UNIT as f64
    }

    fn plus(self, more: Self) -> Self {
        Self { known: self.known + more.known, parts: self.parts.wrapping_add(more.parts) }
    }

    fn since(self, earlier: Self) -> Self {
        Self { known: self.known - earlier.known, parts: self.parts.wrapping_sub(earlier.parts) }
    }
}

impl Dispersion {
    /// Measures the latest block against the mean of all seconds.
    fn observe(&mut self, seconds: usize, all: Sum, block: Sum) {
        self.fresh = 0;
        if all.known < seconds as u64 {
            return;
        }
        let share = BLOCK as f64 / seconds as f64;
        let (mean, block) = (all.count() * share, block.count());
        // Few requests yield no estimate, and a block without any is not chance.
        if mean >= FEWEST && block > 0.0 {
            // The block is a part of the mean, and therefore closer to it than an independent block.
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

/// Returns the whole seconds of a window, at most an hour, the longest that a policy may set.
fn seconds(window: Duration) -> usize {
    let seconds = window.as_secs().min(3600);
    usize::try_from(seconds).unwrap_or(3600).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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
        after(seconds).latest().rate
    }

    /// Returns the rate after a sequence of parts, each `(seconds, arrivals per second)`.
    fn parts(parts: &[(u64, u64)]) -> f64 {
        let seconds = parts.iter().flat_map(|(length, count)| (0..*length).map(|_| *count));
        rate((0..).zip(seconds))
    }

    /// Counts of each second by the definition, without totals: `None` while no gateway reported.
    #[derive(Default)]
    struct Defined {
        second: u64,
        counts: VecDeque<Option<f64>>,
    }

    impl Defined {
        fn observe(&mut self, window: Duration, sample: &Sample) {
            let second = sample.at.as_secs();
            let ahead = if self.counts.is_empty() { 1 } else { second - self.second };
            self.second = second;
            self.counts.extend((0..ahead).map(|_| None));
            let surplus = self.counts.len().saturating_sub(seconds(window));
            self.counts.drain(..surplus);
            let (span, arrivals) = (sample.load.span.as_secs(), sample.load.activity.arrivals);
            if span > 0 || arrivals > 0 {
                let each = arrivals as f64 / span.max(1) as f64;
                let spread = self.counts.iter_mut().rev().take(span.max(1) as usize);
                spread.for_each(|count| *count = Some(count.unwrap_or(0.0) + each));
            }
        }

        /// Returns the known seconds among the latest ones, and their arrivals.
        fn last(&self, seconds: usize) -> (f64, f64) {
            let known = self.counts.iter().rev().take(seconds).flatten();
            known.fold((0.0, 0.0), |(time, count), second| (time + 1.0, count + second))
        }

        fn limit(&self, mut rate: f64, length: usize, arrivals: &Arrivals) -> f64 {
            let (known, count) = self.last(length);
            if length >= CALM && length <= self.counts.len() {
                rate = rate.min(arrivals.bound(count, SIGNIFICANT) / known);
            }
            if count >= ENOUGH {
                let missing = length.saturating_sub(self.counts.len());
                rate = rate.max(arrivals.bound(count, -SIGNIFICANT) / (known + missing as f64));
            }
            rate
        }

        /// Returns the estimate, with both bounds of each window.
        fn estimate(&self, window: Duration, arrivals: &Arrivals) -> Estimate {
            let most = seconds(window);
            let (known, count) = self.last(most);
            let mean = count / known.max(KNOWN.min(most as f64));
            let lengths: Vec<_> = std::iter::successors(Some(SHORTEST), |length| Some(length * 2))
                .take_while(|length| *length < most)
                .collect();
            let rate = lengths.into_iter().rev().fold(mean, |rate, length| self.limit(rate, length, arrivals));
            Estimate { mean, rate, count }
        }
    }

    proptest! {
        /// Spans of 1, 2 and 4 s have exact fractions.
        #[test]
        fn totals_yield_the_defined_estimate(
            window in 0..200_u64,
            seconds in prop::collection::vec((0..9_u64, 0..4_u64, 0..60_u64), 1..200),
        ) {
            let window = Duration::from_secs(window);
            let (mut arrivals, mut defined, mut now) = (Arrivals::default(), Defined::default(), 0);
            for (later, span, count) in seconds {
                now += later.saturating_sub(6).max(1);
                let sample = sample(now, [0, 1, 2, 4][span as usize], count);
                arrivals.observe(window, &sample);
                defined.observe(window, &sample);
                prop_assert_eq!(arrivals.latest(), defined.estimate(window, &arrivals));
            }
        }
    }

    #[test]
    fn a_steady_rate_is_seen_after_ten_seconds() {
        assert_eq!(parts(&[(10, 20)]), 20.0);
        assert_eq!(parts(&[(60, 20)]), 20.0);
    }

    #[test]
    fn few_arrivals_yield_no_full_rate() {
        assert_eq!(parts(&[(1, 6)]), 0.6);
        assert_eq!(parts(&[(59, 0), (1, 6)]), 0.1);
    }

    #[test]
    fn chance_does_not_move_the_rate() {
        // The last second, two seconds and four seconds differ by two standard deviations.
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
    fn old_arrivals_are_forgotten() {
        assert_eq!(parts(&[(30, 100), (60, 5)]), 5.0);
        assert_eq!(rate([(0, 600), (61, 0)]), 0.0);
    }

    #[test]
    fn a_late_report_is_spread_over_its_span() {
        for span in [30, 300] {
            let mut arrivals = after((0..60).map(|second| (second, 10)));
            arrivals.observe(WINDOW, &sample(59 + span, span, 10 * span));
            assert_eq!(arrivals.latest().rate, 10.0);
        }
    }

    #[test]
    fn an_unknown_second_is_not_a_second_without_requests() {
        let mut arrivals = after((0..60).map(|second| (second, 10)));
        for second in 60..90 {
            arrivals.observe(WINDOW, &sample(second, 0, 0));
        }
        arrivals.observe(WINDOW, &sample(90, 1, 10));
        assert_eq!(arrivals.latest().rate, 10.0);
    }

    #[test]
    fn bursts_are_no_change_of_the_rate() {
        let clumps = after((0..1200).map(|second| (second, if second % 3 == 0 { 30 } else { 0 })));
        let rate = clumps.latest().rate;
        assert!((9.0..=12.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_clock_that_goes_back_creates_no_burst() {
        for back in [1, 20, 3600] {
            let mut arrivals = after((5000..5060).map(|second| (second, 10)));
            for second in 5060 - back..5200 {
                arrivals.observe(WINDOW, &sample(second, 1, 10));
                let rate = arrivals.latest().rate;
                assert!((10.0..10.2).contains(&rate), "{second}: {rate}");
            }
        }
    }

    #[test]
    fn a_clock_that_jumps_does_no_harm() {
        let mut arrivals = after([(5, 10), (u64::MAX, 10), (3, 10), (0, 10)]);
        arrivals.observe(Duration::MAX, &sample(7, u64::MAX, u64::MAX));
        assert!(arrivals.latest().rate.is_finite());
        arrivals.observe(Duration::ZERO, &sample(8, 1, 1));
        assert!(arrivals.latest().rate.is_finite());
    }
}
