//! Regular intervals at which a level is needed again.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Latest intervals between two times at which a replica began to be needed, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rhythm {
    latest: VecDeque<f32>,
    /// Range of the intervals without outliers and with a margin; `None` while their similarity may be chance.
    range: Option<(Duration, Duration)>,
}

/// Number of intervals that are remembered.
const KEPT: usize = 16;

/// Number of similar intervals that always suffice, if their range is short enough to be worth keeping a replica.
const ENOUGH: usize = 8;

/// Least number of similar intervals, however alike they are.
const FEWEST: usize = 6;

/// Highest probability that fewer than [`ENOUGH`] intervals are as close to each other by chance.
const CHANCE: f64 = 1e-3;

/// Margin around the interval. Requests are seen a second after they arrive, and a second replica is needed only once
/// the first has too many, so an early need is covered too.
const MARGIN: Duration = Duration::from_secs(8);

impl Rhythm {
    /// Adds an interval that ended now.
    pub(crate) fn add(&mut self, interval: Duration) {
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back(interval.as_secs_f32());
        self.range = self.measure();
    }

    /// Returns the range of times, since the replica last began to be needed, in which it should be ready for the next
    /// time; `None` if the intervals are not regular. The range leaves out a tenth of the intervals at either end and
    /// has a margin. The intervals count as regular if the range and a cold start together are shorter than half the
    /// shortest remaining interval, so that keeping a replica for the range costs less than half of keeping it all the
    /// time.
    pub(crate) fn next(&self, cold_start: Duration) -> Option<RangeInclusive<Duration>> {
        let (least, most) = self.range?;
        let pays = (most - least + cold_start) * 2 < least;
        pays.then_some(least..=most)
    }

    /// Returns true if the intervals are alike, so that [`next`](Self::next) may return a range.
    pub(crate) fn has_range(&self) -> bool {
        self.range.is_some()
    }

    fn measure(&self) -> Option<(Duration, Duration)> {
        if self.latest.len() < FEWEST {
            return None;
        }
        let mut sorted: Vec<f32> = self.latest.iter().copied().collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let outliers = sorted.len() / 10;
        let (shortest, longest) = (sorted[outliers], sorted[sorted.len() - 1 - outliers]);
        if sorted.len() < ENOUGH && chance(shortest, longest, sorted.len()) > CHANCE {
            return None;
        }
        let least = Duration::from_secs_f32(shortest).saturating_sub(MARGIN);
        let most = Duration::from_secs_f32(longest) + MARGIN;
        Some((least, most))
    }
}

/// Returns the probability that this many intervals of random length lie between the two. The first one may have any
/// length; each other one must lie within their distance of it.
fn chance(shortest: f32, longest: f32, count: usize) -> f64 {
    let share = f64::from(longest - shortest + 1.0) / f64::from(longest.max(1.0));
    share.powi(count as i32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(60);

    fn next(intervals: &[u64]) -> Option<(u64, u64)> {
        let mut rhythm = Rhythm::default();
        for interval in intervals {
            rhythm.add(Duration::from_secs(*interval));
        }
        let next = rhythm.next(START)?;
        Some((next.start().as_secs(), next.end().as_secs()))
    }

    #[test]
    fn a_load_every_ten_minutes_is_expected_again() {
        assert_eq!(next(&[600; 8]), Some((592, 608)));
        assert_eq!(next(&[600, 602, 598, 600, 601, 600, 599, 600]), Some((590, 610)));
    }

    #[test]
    fn few_intervals_suffice_if_they_are_very_similar() {
        assert_eq!(next(&[1800; 5]), None);
        assert_eq!(next(&[1800, 1790, 1805, 1795, 1800, 1800]), Some((1782, 1813)));
        // Six that differ by more than a quarter may be chance; seven are not.
        assert_eq!(next(&[1800, 1330, 1500, 1700, 1600, 1550]), None);
        assert_eq!(next(&[1800, 1330, 1500, 1700, 1600, 1550, 1550]), Some((1322, 1808)));
    }

    #[test]
    fn one_of_many_may_differ() {
        let mut intervals = vec![600; 15];
        intervals.push(1200);
        assert_eq!(next(&intervals), Some((592, 608)));
    }

    #[test]
    fn irregular_intervals_predict_nothing() {
        assert_eq!(next(&[100, 700, 300, 900, 200, 600, 400, 500]), None);
        // The interval is too short for a start in between.
        assert_eq!(next(&[90; 16]), None);
    }
}
