//! When each number of replicas was last needed.

use std::time::Duration;

/// For the first, the second, the third replica and so on: when it was last needed. What needs three
/// needs two, so no later one was needed later.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LastNeeded {
    times: Vec<Duration>,
    /// The most replicas that were asked for, by a decision or otherwise, and are not ended yet.
    known: u32,
}

impl LastNeeded {
    /// Whether more replicas are desired than was decided: they were asked for elsewhere.
    pub(crate) fn is_raised_elsewhere(&self, desired: u32) -> bool {
        desired > self.known
    }

    /// Takes in the number of replicas that are desired. Those that were asked for elsewhere count as needed now:
    /// there is a reason for them, and what they did before was not seen.
    pub(crate) fn adopt(&mut self, desired: u32, now: Duration) {
        if self.is_raised_elsewhere(desired) {
            self.set(desired, now);
        }
        self.known = desired;
    }

    /// Notes that so many replicas are needed now.
    pub(crate) fn set(&mut self, replicas: u32, now: Duration) {
        let needed = replicas as usize;
        if self.times.len() < needed {
            self.times.resize(needed, now);
        }
        self.times[..needed].fill(now);
    }

    /// How many are kept, when each is for as long as `keep` says of it (1 is the first); the others are
    /// forgotten.
    pub(crate) fn kept(&mut self, now: Duration, keep: impl Fn(u32) -> Duration) -> u32 {
        let is_kept = |(index, last): (usize, &Duration)| {
            let level = index as u32 + 1;
            now == *last || now.saturating_sub(*last) < keep(level)
        };
        let top = self.times.iter().enumerate().rev().find(|at| is_kept(*at));
        let kept = top.map_or(0, |(index, _)| index + 1);
        self.times.truncate(kept);
        kept as u32
    }

    /// For how long this replica (1 is the first), which is still kept, was not needed.
    pub(crate) fn unneeded(&self, level: u32, now: Duration) -> Duration {
        let index = (level as usize).saturating_sub(1);
        let last = self.times.get(index).copied().unwrap_or(now);
        now.saturating_sub(last)
    }

    /// Forgets every replica, so that none is kept.
    pub(crate) fn clear(&mut self) {
        self.times.clear();
    }

    /// Notes the number of replicas that was decided.
    pub(crate) fn decided(&mut self, replicas: u32) {
        self.known = self.known.max(replicas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn each_replica_is_kept_from_when_it_was_needed() {
        let mut last_needed = LastNeeded::default();
        last_needed.set(3, at(0));
        last_needed.set(2, at(5));
        last_needed.set(1, at(8));
        let mut kept = |second| last_needed.kept(at(second), |_| at(10));
        assert_eq!((kept(9), kept(10), kept(15), kept(18)), (3, 2, 1, 0));
    }

    #[test]
    fn what_others_asked_for_is_kept_and_what_we_end_is_not_taken_for_it() {
        let mut last_needed = LastNeeded::default();
        last_needed.adopt(4, at(0));
        assert_eq!(last_needed.kept(at(9), |_| at(10)), 4);
        assert_eq!(last_needed.kept(at(10), |_| at(10)), 0);
        last_needed.decided(0);
        // The cluster is slow to follow.
        last_needed.adopt(4, at(11));
        assert_eq!(last_needed.kept(at(11), |_| at(10)), 0);
        last_needed.adopt(0, at(12));
        last_needed.adopt(2, at(13));
        assert_eq!(last_needed.kept(at(14), |_| at(10)), 2);
    }

    #[test]
    fn without_retention_a_needed_replica_is_still_kept_now() {
        let mut last_needed = LastNeeded::default();
        last_needed.set(1, at(3));
        assert_eq!(last_needed.kept(at(3), |_| Duration::ZERO), 1);
        assert_eq!(last_needed.kept(at(4), |_| Duration::ZERO), 0);
    }
}
