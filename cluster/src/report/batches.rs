//! Batches executed by replicas and their execution times, by batch size.

use std::collections::BTreeMap;
use std::time::Duration;

use super::buckets::Buckets;

/// Buckets of batch sizes: each size up to 16 has its own bucket, above that there are eight for each doubling; 65 536
/// and more share the last one. The memory of a report is therefore bounded, whatever sizes a replica reports.
const BUCKETS: Buckets = Buckets { cuts: 3, count: 113 };

/// Batches by size. All values use the same buckets, so they can be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    by_size: BTreeMap<u64, BatchTimes>,
}

/// Totals of the batches of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTimes {
    /// Number of batches of this size.
    pub count: u64,
    /// Total number of rows in these batches.
    pub rows: u64,
    /// Total execution time of these batches, in microseconds.
    pub total_us: u64,
}

impl Batches {
    /// Counts one batch of `size` rows that took this long.
    pub fn record(&mut self, size: u32, took: Duration) {
        let bucket = BUCKETS.lower(BUCKETS.index(u64::from(size)));
        let times = self.by_size.entry(bucket).or_default();
        times.count += 1;
        times.rows += u64::from(size);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        times.total_us = times.total_us.saturating_add(us);
    }

    /// Adds the totals that another process counted for one size.
    pub fn add(&mut self, size: u64, times: BatchTimes) {
        let bucket = BUCKETS.lower(BUCKETS.index(size));
        self.by_size.entry(bucket).or_default().add(times);
    }

    /// Iterates over the non-empty buckets: the bucket's smallest size and the totals of its batches.
    pub fn iter(&self) -> impl Iterator<Item = (u64, BatchTimes)> {
        self.by_size.iter().map(|(size, times)| (*size, *times))
    }

    /// Adds the totals of another set of batches.
    pub fn merge(&mut self, other: &Self) {
        for (size, times) in other.iter() {
            self.add(size, times);
        }
    }

    /// Returns the difference from an earlier state of the same totals.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |size| earlier.by_size.get(&size).copied().unwrap_or_default();
        let difference = self.iter().map(|(size, now)| (size, now.since(before(size))));
        Self { by_size: difference.filter(|(_, times)| times.count > 0).collect() }
    }
}

impl BatchTimes {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.rows += other.rows;
        self.total_us = self.total_us.saturating_add(other.total_us);
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            rows: self.rows.saturating_sub(earlier.rows),
            total_us: self.total_us.saturating_sub(earlier.total_us),
        }
    }
}
