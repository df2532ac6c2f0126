//! A histogram with fixed bounds.

/// Counts of observed values by upper bound, not cumulative; the last count is of values above every bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: Box<[f64]>,
    counts: Box<[u64]>,
    sum: f64,
}

impl Histogram {
    /// Creates an empty histogram. The bounds must ascend.
    #[must_use]
    pub fn new(bounds: &[f64]) -> Self {
        Self { bounds: bounds.into(), counts: vec![0; bounds.len() + 1].into(), sum: 0.0 }
    }

    /// Counts one value in the first bucket whose bound is at least the value.
    pub fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// Sum of all values.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Number of observed values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns each bound with its own count, not cumulative; the last bound is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.bounds.iter().copied().chain([f64::INFINITY]).zip(self.counts.iter().copied())
    }
}
