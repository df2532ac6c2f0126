//! Gaps of one level: the times for which its replica was not needed before it was needed again.

use std::collections::VecDeque;
use std::time::Duration;

/// Latest gaps of one level, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gaps {
    latest: VecDeque<f32>,
    /// The same gaps, the shortest first: they change much less often than they are used.
    sorted: Vec<f32>,
}

/// Number of gaps that are remembered: enough to tell a habit from chance, few enough to follow a change of habits.
const KEPT: usize = 64;

/// Least number of gaps that make a habit.
const FEWEST: usize = 5;

impl Gaps {
    /// Adds a gap that ended now.
    pub(crate) fn add(&mut self, gap: Duration) {
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back(gap.as_secs_f32());
        self.sorted.clear();
        self.sorted.extend(&self.latest);
        self.sorted.sort_unstable_by(f32::total_cmp);
    }

    /// Returns the time that would have been cheapest to keep the replica over all the gaps, if a start costs as much
    /// as keeping a replica for `cost`. Returns `None` while there are too few gaps.
    pub(crate) fn keep(&self, cost: Duration) -> Option<Duration> {
        if self.latest.len() < FEWEST {
            return None;
        }
        let cost = cost.as_secs_f64();
        let sorted = &self.sorted;
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
        // 5 % more, so that the same gap is covered next time.
        Some(Duration::from_secs_f64(best.1 * 1.05))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(gaps: &[u64], cost: u64) -> Option<f64> {
        let mut all = Gaps::default();
        for gap in gaps {
            all.add(Duration::from_secs(*gap));
        }
        all.keep(Duration::from_secs(cost)).map(|time| time.as_secs_f64())
    }

    #[test]
    fn too_few_gaps_yield_nothing() {
        assert_eq!(keep(&[60; 4], 100), None);
    }

    #[test]
    fn gaps_shorter_than_the_worth_of_a_start_are_covered() {
        assert_eq!(keep(&[60; 5], 100), Some(63.0));
        assert_eq!(keep(&[60; 5], 50), Some(0.0));
    }

    #[test]
    fn rare_long_gaps_are_not_covered() {
        assert_eq!(keep(&[20, 20, 20, 20, 20, 20, 20, 20, 900], 100), Some(21.0));
    }

    #[test]
    fn old_gaps_are_forgotten() {
        let mut gaps = vec![60; KEPT];
        gaps.extend([5; KEPT]);
        assert_eq!(keep(&gaps, 100), Some(5.25));
    }
}
