use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn of(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    for us in values {
        histogram.record(Duration::from_micros(*us));
    }
    histogram
}

#[test]
fn buckets_cover_a_microsecond_to_minutes() {
    let bounds = Histogram::bounds_us();
    assert_eq!(bounds.len(), Histogram::BUCKETS);
    assert_eq!(bounds[..18], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18]);
    assert_eq!(bounds[Histogram::BUCKETS - 1], 1 << 28);
}

#[test]
fn an_empty_histogram_has_no_quantile() {
    assert_eq!(Histogram::default().quantile(0.5), None);
    assert_eq!(Histogram::default().mean(), None);
    assert_eq!(Histogram::from_counts(vec![1], 0), None);
}

#[test]
fn a_restarted_gateway_counts_as_new() {
    let before = Activity { arrivals: 10, ..Activity::default() };
    let after = Activity { arrivals: 3, woken: 1, ..Activity::default() };
    assert_eq!(after.since(&before), after);
    assert_eq!(before.since(&before).arrivals, 0);
}

#[test]
fn credits_are_a_current_value_and_add_up_over_gateways() {
    let with = |credits| Activity { credits, ..Activity::default() };
    assert_eq!(with(6).since(&with(9)).credits, 6);
    let mut both = with(3);
    both.merge(&with(5));
    assert_eq!(both.credits, 8);
}

#[test]
fn batches_keep_their_mean_size() {
    let mut batches = Batches::default();
    batches.record(8, Duration::from_millis(4));
    batches.record(33, Duration::from_millis(10));
    batches.record(35, Duration::from_millis(12));
    let earlier = batches.clone();
    batches.record(8, Duration::from_millis(6));
    let all: Vec<_> = batches.iter().map(|(size, t)| (size, t.count, t.rows, t.total_us)).collect();
    assert_eq!(all, [(8, 2, 16, 10_000), (32, 2, 68, 22_000)]);
    let news: Vec<_> = batches.since(&earlier).iter().map(|(size, t)| (size, t.count)).collect();
    assert_eq!(news, [(8, 1)]);
}

#[test]
fn the_total_time_of_batches_saturates() {
    let mut batches = Batches::default();
    batches.record(1, Duration::from_micros(u64::MAX));
    batches.record(1, Duration::from_micros(u64::MAX));
    let times = batches.iter().next().unwrap().1;
    assert_eq!((times.count, times.total_us), (2, u64::MAX));
}

proptest! {
    #[test]
    fn a_quantile_is_within_an_eighth(mut values in proptest::collection::vec(0u64..200_000_000, 1..50), share in 0.0f64..=1.0) {
        let quantile = of(&values).quantile(share).unwrap().as_micros() as f64;
        values.sort_unstable();
        let rank = ((values.len() as f64 * share).ceil() as usize).max(1);
        let exact = values[rank - 1] as f64;
        prop_assert!((quantile - exact).abs() <= exact / 8.0 + 1.0, "{} for {}", quantile, exact);
    }

    #[test]
    fn a_histogram_of_longer_durations_has_as_many_and_their_quantiles(
        values in proptest::collection::vec(0_u64..10_000_000, 1..50),
        more in 0_u64..10_000_000,
        share in 0.0_f64..=1.0,
    ) {
        let (mut histogram, mut expected) = (Histogram::default(), Histogram::default());
        for us in values {
            histogram.record(Duration::from_micros(us));
            expected.record(Duration::from_micros(us + more));
        }
        let longer = histogram.longer_by(Duration::from_micros(more));
        prop_assert_eq!((longer.count(), longer.sum_us()), (expected.count(), expected.sum_us()));
        let (longer, expected) = (longer.quantile(share).unwrap(), expected.quantile(share).unwrap());
        let most = expected.mul_f64(0.25) + Duration::from_micros(4);
        prop_assert!(longer.abs_diff(expected) <= most, "{longer:?}, {expected:?}");
        prop_assert_eq!(&histogram.longer_by(Duration::ZERO), &histogram);
    }

    #[test]
    fn the_difference_after_a_merge_is_the_merged_histogram(a in proptest::collection::vec(any::<u32>(), 0..30), b in proptest::collection::vec(any::<u32>(), 0..30)) {
        let widen = |values: &[u32]| values.iter().map(|v| u64::from(*v)).collect::<Vec<_>>();
        let (first, second) = (of(&widen(&a)), of(&widen(&b)));
        let mut both = first.clone();
        both.merge(&second);
        prop_assert_eq!(both.count(), (a.len() + b.len()) as u64);
        let news = both.since(&first);
        prop_assert_eq!(news.count(), second.count());
        prop_assert_eq!(news.sum_us(), second.sum_us());
        prop_assert_eq!(news.quantile(0.9), second.quantile(0.9));
    }

    #[test]
    fn every_bucket_begins_at_its_bound(index in 0..Histogram::BUCKETS - 1) {
        let bounds = Histogram::bounds_us();
        let counts = of(&[bounds[index], bounds[index + 1] - 1]);
        prop_assert_eq!(counts.counts()[index], 2);
    }
}
