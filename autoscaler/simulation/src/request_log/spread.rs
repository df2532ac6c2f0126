//! Spreads requests over their second if a log has only whole seconds.

use std::time::Duration;

use super::Resolution;
use crate::chance::Chance;

/// Fixed seed, so that a log gives the same times in every run.
const SEED: u64 = 1;

/// Spreads requests at random over their seconds if the log has whole seconds only, as access logs do. Otherwise all
/// requests of a second would arrive together and wait for each other.
pub(super) fn spread(arrivals: Vec<Duration>) -> (Vec<Duration>, Resolution) {
    let is_whole = arrivals.iter().all(|at| at.subsec_nanos() == 0);
    let mut pairs = arrivals.windows(2);
    let is_shared = pairs.any(|pair| pair.first() == pair.last());
    if !is_whole || !is_shared {
        return (arrivals, Resolution::Finer);
    }
    let mut chance = Chance::new(SEED);
    let within = arrivals.into_iter().map(|at| at + Duration::from_secs_f64(1.0 - chance.next()));
    let mut within: Vec<Duration> = within.collect();
    within.sort_unstable();
    let first = within.first().copied().unwrap_or_default();
    let since_first = within.into_iter().map(|at| at.saturating_sub(first));
    (since_first.collect(), Resolution::Seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_whole_seconds_are_spread_over_them() {
        let seconds = (0..100).flat_map(|second| [Duration::from_secs(second); 40]);
        let (arrivals, resolution) = spread(seconds.collect());
        assert_eq!((arrivals.len(), resolution), (4000, Resolution::Seconds));
        assert_eq!(arrivals[0], Duration::ZERO);
        assert!(arrivals.is_sorted());
        let together = arrivals.windows(2).filter(|pair| pair[0] == pair[1]);
        assert_eq!(together.count(), 0);
        // Each second keeps its requests, counted from the first one.
        let early = arrivals.iter().filter(|at| at.as_secs() < 50).count();
        assert!((1960..=2040).contains(&early), "{early}");
    }

    #[test]
    fn finer_times_are_kept() {
        let finer = [0, 0, 1500, 2000].map(Duration::from_millis).to_vec();
        assert_eq!(spread(finer.clone()), (finer, Resolution::Finer));
        let apart = [0, 1, 7].map(Duration::from_secs).to_vec();
        assert_eq!(spread(apart.clone()), (apart, Resolution::Finer));
        assert_eq!(spread(Vec::new()), (Vec::new(), Resolution::Finer));
    }
}
