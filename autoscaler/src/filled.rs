//! Buckets of a histogram in which something was recorded.

use weir_cluster::Histogram;

/// Number of buckets that are skipped together if all are empty. In one second most of the buckets are.
const TOGETHER: usize = 8;

/// Calls `each` with the smallest duration in microseconds and the count of each bucket that is not empty, the shortest
/// first.
pub(crate) fn for_each_filled(histogram: &Histogram, mut each: impl FnMut(u64, u64)) {
    let bounds = Histogram::bounds_us();
    let (groups, _) = histogram.counts().as_chunks::<TOGETHER>();
    let rest = groups.len() * TOGETHER;
    let mut pass = |from: usize, counts: &[u64]| {
        for (us, count) in bounds[from..].iter().zip(counts).filter(|(_, count)| **count > 0) {
            each(*us, *count);
        }
    };
    for (index, counts) in groups.iter().enumerate() {
        if counts.iter().fold(0, |all, count| all | count) > 0 {
            pass(index * TOGETHER, counts);
        }
    }
    pass(rest, &histogram.counts()[rest..]);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_bucket_with_a_count_is_returned_in_order() {
        let filled = |histogram: &Histogram| {
            let mut filled = Vec::new();
            for_each_filled(histogram, |us, count| filled.push((us, count)));
            filled
        };
        let mut histogram = Histogram::default();
        assert_eq!(filled(&histogram), []);
        let bounds = Histogram::bounds_us();
        for us in [bounds[0], bounds[7], bounds[8], bounds[100], *bounds.last().unwrap()] {
            histogram.record(Duration::from_micros(us));
            histogram.record(Duration::from_micros(us));
        }
        let expected: Vec<_> = bounds.iter().copied().zip(histogram.counts().iter().copied()).collect();
        let expected: Vec<_> = expected.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled(&histogram), expected);
        assert_eq!(expected.len(), 5);
    }
}
