//! The gaps of one level: how long its replica was not needed until it was needed again.

use std::collections::VecDeque;
use std::time::Duration;

/// The latest gaps of one level, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gaps {
    latest: VecDeque<f32>,
}

/// Gaps that are remembered: enough to tell a habit from chance, few enough to follow a change of habits.
const KEPT: usize = 64;

/// Fewer gaps than this are no habit.
const FEWEST: usize = 5;

impl Gaps {
    /// Adds a gap that ends now.
    pub(crate) fn add(&mut self, gap: Duration) {
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back(gap.as_secs_f32());
    }

    /// The time for which it would have been best to keep the replica in all the gaps, if a start costs as much
    /// as `cost` of keeping. Before there are gaps to tell, `first`.
    pub(crate) fn keep(&self, cost: Duration, first: Duration) -> Duration {
        if self.latest.len() < FEWEST {
            return first;
        }
        let cost = cost.as_secs_f64();
        let mut sorted: Vec<f32> = self.latest.iter().copied().collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let mut best = (cost * sorted.len() as f64, 0.0);
        let mut shorter = 0.0;
        for (index, gap) in sorted.iter().map(|gap| f64::from(*gap)).enumerate() {
            shorter += gap;
            let longer = (sorted.len() - index - 1) as f64;
            let total = shorter + longer * (gap + cost);
            if total < best.0 {
                best = (total, gap);
            }
        }
        // What comes back after just as long as before is still met.
        Duration::from_secs_f64(best.1 * 1.05)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(gaps: &[u64], cost: u64) -> f64 {
        let mut all = Gaps::default();
        for gap in gaps {
            all.add(Duration::from_secs(*gap));
        }
        let first = Duration::from_secs(7);
        all.keep(Duration::from_secs(cost), first).as_secs_f64()
    }

    #[test]
    fn too_few_tell_nothing() {
        assert_eq!(keep(&[60; 4], 100), 7.0);
    }

    #[test]
    fn gaps_shorter_than_a_start_is_worth_are_kept_over() {
        assert_eq!(keep(&[60; 5], 100), 63.0);
        assert_eq!(keep(&[60; 5], 50), 0.0);
    }

    #[test]
    fn seldom_long_ones_are_not() {
        assert_eq!(keep(&[20, 20, 20, 20, 20, 20, 20, 20, 900], 100), 21.0);
    }

    #[test]
    fn old_ones_are_forgotten() {
        let mut gaps = vec![60; KEPT];
        gaps.extend([5; KEPT]);
        assert_eq!(keep(&gaps, 100), 5.25);
    }
}
