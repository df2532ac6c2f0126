//! Histograms of durations with fixed buckets.

use std::sync::LazyLock;
use std::time::Duration;

use super::buckets::Buckets;

/// Buckets in microseconds. Eight for each doubling, so a quantile is off by at most an eighth (6 % from the middle);
/// below 16 µs each number has its own. 268 s (2^28 µs) and more share the last bucket: hardly any request takes so
/// long.
const BUCKETS: Buckets = Buckets { cuts: 3, count: 209 };

/// A histogram of durations. All histograms have the same buckets, so they can be added. An empty histogram allocates
/// no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// One count per bucket, or empty if nothing was recorded.
    counts: Box<[u64]>,
    sum_us: u64,
}

impl Histogram {
    /// Number of buckets in every histogram.
    pub const BUCKETS: usize = BUCKETS.count;

    /// The smallest duration of each bucket, in microseconds; the last bucket has no upper bound.
    #[must_use]
    pub fn bounds_us() -> &'static [u64] {
        static BOUNDS: LazyLock<Vec<u64>> = LazyLock::new(|| (0..BUCKETS.count).map(|i| BUCKETS.lower(i)).collect());
        &BOUNDS
    }

    /// Creates a histogram from the counts of another process: one number per bucket, and the sum of all durations in
    /// microseconds. Returns `None` if there are not [`Self::BUCKETS`] counts.
    #[must_use]
    pub fn from_counts(counts: Vec<u64>, sum_us: u64) -> Option<Self> {
        let fits = counts.len() == Self::BUCKETS;
        fits.then(|| Self { counts: counts.into(), sum_us })
    }

    /// Records one duration, truncated to whole microseconds.
    pub fn record(&mut self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.filled()[BUCKETS.index(us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// The counts, one per bucket; empty if nothing was recorded.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Number of recorded durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all recorded durations, in microseconds.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Mean duration; `None` if nothing was recorded.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum_us.checked_div(self.count())?;
        Some(Duration::from_micros(mean))
    }

    /// Returns the quantile for `share` (0 to 1), to the precision of the middle of its bucket; `None` if nothing was
    /// recorded.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut cumulative = 0;
        for (i, bucket) in self.counts.iter().enumerate() {
            cumulative += bucket;
            if cumulative >= rank {
                return Some(middle(i));
            }
        }
        None
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.is_empty() {
            return;
        }
        for (mine, theirs) in self.filled().iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// Returns the difference from an earlier state of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().chain(std::iter::repeat(&0));
        let counts = self.counts.iter().zip(before);
        Self {
            counts: counts.map(|(now, then)| now.saturating_sub(*then)).collect(),
            sum_us: self.sum_us.saturating_sub(earlier.sum_us),
        }
    }

    /// Returns the histogram of the same durations, each longer by `more`. They are counted from the middle of their
    /// buckets.
    #[must_use]
    pub fn longer_by(&self, more: Duration) -> Self {
        let mut longer = Self::default();
        let more_us = u64::try_from(more.as_micros()).unwrap_or(u64::MAX);
        for (index, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let us = u64::try_from((middle(index) + more).as_micros()).unwrap_or(u64::MAX);
            longer.filled()[BUCKETS.index(us)] += count;
        }
        longer.sum_us = self.sum_us.saturating_add(more_us.saturating_mul(self.count()));
        longer
    }

    fn filled(&mut self) -> &mut [u64] {
        if self.counts.is_empty() {
            self.counts = vec![0; Self::BUCKETS].into();
        }
        &mut self.counts
    }
}

/// Returns the middle of a bucket. The last bucket has no upper bound, so its lower bound is used instead.
fn middle(index: usize) -> Duration {
    let lower = BUCKETS.lower(index);
    let upper = if index + 1 < BUCKETS.count { BUCKETS.lower(index + 1) } else { lower + 1 };
    Duration::from_micros(lower + (upper - lower) / 2)
}
