//! Batches that replicas ran, and their times, by size.

use std::collections::BTreeMap;
use std::time::Duration;

use super::buckets::Buckets;

/// Batch sizes: up to 16 each has its own bucket, above that there are eight for each doubling; 65 536
/// and more share the last. So the memory of a report is bounded whatever a replica says.
const BUCKETS: Buckets = Buckets { cuts: 3, count: 113 };

/// Batches by size. All have the same buckets, so they add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    by_size: BTreeMap<u64, BatchTimes>,
}

/// The batches of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTimes {
    /// How many there were.
    pub count: u64,
    /// The rows they held together.
    pub rows: u64,
    /// Their times together, in microseconds.
    pub total_us: u64,
}

impl Batches {
    /// Counts one batch of `size` rows.
    pub fn record(&mut self, size: u32, took: Duration) {
        let bucket = BUCKETS.lower(BUCKETS.index(u64::from(size)));
        let times = self.by_size.entry(bucket).or_default();
        times.count += 1;
        times.rows += u64::from(size);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        times.total_us = times.total_us.saturating_add(us);
    }

    /// Counts what another process counted under one size.
    pub fn add(&mut self, size: u64, times: BatchTimes) {
        let bucket = BUCKETS.lower(BUCKETS.index(size));
        self.by_size.entry(bucket).or_default().add(times);
    }

    /// The smallest size of each bucket that holds any, with its batches.
    pub fn iter(&self) -> impl Iterator<Item = (u64, BatchTimes)> {
        self.by_size.iter().map(|(size, times)| (*size, *times))
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        for (size, times) in other.iter() {
            self.add(size, times);
        }
    }

    /// Counts since an earlier state of the same.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |size| earlier.by_size.get(&size).copied().unwrap_or_default();
        let news = self.iter().map(|(size, now)| (size, now.since(before(size))));
        Self { by_size: news.filter(|(_, times)| times.count > 0).collect() }
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
