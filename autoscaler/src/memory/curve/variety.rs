//! Variation of the times of a service's requests.

use weir_cluster::Histogram;

use crate::filled::for_each_filled;

/// First two moments of the times of the latest requests, in microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Variety {
    count: f64,
    sum: f64,
    squares: f64,
}

/// Number of requests over which the moments are averaged: enough to notice what happens once in a hundred.
const AVERAGED: f64 = 1000.0;

/// Squared coefficient of variation below which times count as alike, such as batches of different sizes, or a service
/// that has become three times slower.
const ALIKE: f64 = 0.25;

impl Variety {
    /// Adds the times of the requests that ended since the last sample, and returns their number.
    pub(super) fn observe(&mut self, times: &Histogram) -> u64 {
        let mut ended = 0;
        for_each_filled(times, |us, count| {
            ended += count;
            let (us, count) = (us as f64, count as f64);
            self.count += count;
            self.sum += count * us;
            self.squares += count * us * us;
        });
        if self.count > AVERAGED {
            let kept = AVERAGED / self.count;
            self.sum *= kept;
            self.squares *= kept;
            self.count = AVERAGED;
        }
        ended
    }

    /// Returns how many times more requests are needed for a reliable mean than if the times were alike; at least 1.
    pub(super) fn times(&self) -> f64 {
        if self.sum <= 0.0 {
            return 1.0;
        }
        let mean = self.sum / self.count;
        let variance = (self.squares / self.count - mean * mean).max(0.0);
        (variance / (mean * mean) / ALIKE).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns the variety after these (count, milliseconds) times.
    fn after(times: &[(u64, u64)]) -> f64 {
        let mut variety = Variety::default();
        let mut histogram = Histogram::default();
        for (count, ms) in times {
            for _ in 0..*count {
                histogram.record(Duration::from_millis(*ms));
            }
        }
        variety.observe(&histogram);
        variety.times()
    }

    #[test]
    fn similar_times_have_no_variety() {
        assert_eq!(after(&[]), 1.0);
        assert_eq!(after(&[(100, 200)]), 1.0);
        // Batches of one and of eight, and a service before and after it became three times slower.
        assert_eq!(after(&[(100, 500), (100, 1200)]), 1.0);
        assert!(after(&[(100, 200), (100, 600)]) < 1.5);
    }

    #[test]
    fn a_few_long_times_dominate_the_mean() {
        let bimodal = after(&[(950, 100), (50, 20_000)]);
        assert!((55.0..70.0).contains(&bimodal), "{bimodal}");
    }

    #[test]
    fn old_times_are_forgotten() {
        let mut variety = Variety::default();
        let mut short = Histogram::default();
        short.record(Duration::from_millis(100));
        let mut long = Histogram::default();
        long.record(Duration::from_secs(20));
        variety.observe(&long);
        for _ in 0..20_000 {
            variety.observe(&short);
        }
        assert_eq!(variety.times(), 1.0);
    }
}
