//! Buckets of a histogram in which something was recorded.

use weir_cluster::Histogram;

/// Number of buckets that are skipped together if all are empty. In one second most of the buckets are.
const TOGETHER: usize = 8;

/// Returns the smallest duration in microseconds and the count of each bucket that is not empty, the shortest first.
pub(crate) fn filled(histogram: &Histogram) -> impl Iterator<Item = (u64, u64)> {
    let bounds = Histogram::bounds_us().chunks(TOGETHER);
    let groups = bounds.zip(histogram.counts().chunks(TOGETHER));
    let groups = groups.filter(|(_, counts)| counts.iter().fold(0, |all, count| all | count) > 0);
    let buckets = groups.flat_map(|(bounds, counts)| bounds.iter().copied().zip(counts.iter().copied()));
    buckets.filter(|(_, count)| *count > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_bucket_with_a_count_is_returned_in_order() {
        let mut histogram = Histogram::default();
        assert_eq!(filled(&histogram).next(), None);
        let bounds = Histogram::bounds_us();
        for us in [bounds[0], bounds[7], bounds[8], bounds[100], *bounds.last().unwrap()] {
            histogram.record(Duration::from_micros(us));
            histogram.record(Duration::from_micros(us));
        }
        let expected: Vec<_> = bounds.iter().copied().zip(histogram.counts().iter().copied()).collect();
        let expected: Vec<_> = expected.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled(&histogram).collect::<Vec<_>>(), expected);
        assert_eq!(expected.len(), 5);
    }
}
