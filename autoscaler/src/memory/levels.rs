//! Remembers when each number of replicas was last needed, and decides how long to keep it.

use std::time::Duration;

use super::gaps::Gaps;
use super::rhythm::Rhythm;

/// One entry for the first replica, the second and so on: the time at which it was last needed, and the gaps after
/// which it was needed again. A load that needs three replicas needs two, so these times never increase from one level
/// to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Levels {
    levels: Vec<Level>,
    /// Number of replicas that have not been stopped since they were last needed.
    kept: usize,
    /// Number of levels up to the last one with regular intervals.
    regular: usize,
    /// The most replicas that were requested, by a decision or by others, and that have not ended yet.
    known: u32,
}

/// History of one replica; level 1 is the first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Level {
    last_needed: Duration,
    /// Time since when the replica has been needed without a gap that counts.
    since: Duration,
    /// Usual time for which the replica is needed without a gap; `None` before the first gap.
    usual: Option<Duration>,
    gaps: Gaps,
    rhythm: Rhythm,
}

impl Level {
    fn new(now: Duration) -> Self {
        Self { last_needed: now, since: now, usual: None, gaps: Gaps::default(), rhythm: Rhythm::default() }
    }

    /// Returns the gaps after which the replica was needed again.
    pub(crate) fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Returns the usual time for which the replica is needed without a gap.
    pub(crate) fn needed(&self) -> Duration {
        let latest = self.last_needed.saturating_sub(self.since);
        self.usual.map_or(latest, |usual| (usual * 3 + latest) / 4)
    }

    /// Returns true if the replica is needed at regular intervals.
    pub(crate) fn is_regular(&self, cold_start: Duration) -> bool {
        self.rhythm.next(cold_start).is_some()
    }

    /// Returns true if a start now would be ready in time, and not too early, for the next time the replica is needed.
    fn is_expected(&self, now: Duration, cold_start: Duration) -> bool {
        let passed = now.saturating_sub(self.since);
        let next = self.rhythm.next(cold_start);
        next.is_some_and(|next| passed + cold_start >= *next.start() && passed <= *next.end())
    }

    /// Ends a gap now.
    fn resume(&mut self, now: Duration, gap: Duration) {
        self.usual = Some(self.needed());
        self.gaps.add(gap);
        self.rhythm.add(now.saturating_sub(self.since));
        self.since = now;
    }
}

/// Number of levels whose gaps are learned. Higher levels of large services are noise of the load; they follow the last
/// learned level, which bounds the memory per service.
const LEARNED: usize = 64;

impl Levels {
    /// Returns true if more replicas are desired than were decided, so something else raised the number.
    pub(crate) fn is_raised_elsewhere(&self, desired: u32) -> bool {
        desired > self.known
    }

    /// Adopts the desired number of replicas. Replicas that others requested count as needed now: there is a reason for
    /// them, and their past is unknown.
    pub(crate) fn adopt(&mut self, desired: u32, now: Duration) {
        if self.is_raised_elsewhere(desired) {
            self.touch(desired, now);
        }
        self.known = desired;
    }

    /// Records that this many replicas are needed now, and the gaps that end with it; gaps below `least` are ignored.
    pub(crate) fn set(&mut self, replicas: u32, now: Duration, least: Duration) {
        let known = self.levels.iter_mut().take(LEARNED.min(replicas as usize));
        let mut has_resumed = false;
        for level in known {
            let gap = now.saturating_sub(level.last_needed);
            if gap > least {
                level.resume(now, gap);
                has_resumed = true;
            }
        }
        if has_resumed {
            let last = self.levels.iter().rposition(|level| level.rhythm.has_range());
            self.regular = last.map_or(0, |index| index + 1);
        }
        self.touch(replicas, now);
    }

    /// Returns how many replicas are kept if each is kept for the time that `keep` returns for its level (1 is the
    /// first). If these are more than `needed`, also returns for how long the last of them is still kept.
    pub(crate) fn kept(
        &mut self,
        now: Duration,
        needed: u32,
        keep: impl Fn(u32, &Level) -> Duration,
    ) -> (u32, Duration) {
        while let Some(index) = self.kept.checked_sub(1) {
            let level = index as u32 + 1;
            let unneeded = now.saturating_sub(self.levels[index].last_needed);
            if unneeded.is_zero() && level <= needed {
                return (level, Duration::ZERO);
            }
            let time = keep(level, &self.levels[index.min(LEARNED - 1)]);
            if unneeded.is_zero() || unneeded < time {
                return (level, time.saturating_sub(unneeded));
            }
            self.kept = index;
        }
        (0, Duration::ZERO)
    }

    /// Returns the most replicas for which a start now would be in time, by the intervals at which they were needed
    /// before.
    pub(crate) fn expected(&self, now: Duration, cold_start: Duration) -> u32 {
        let learned = self.levels.iter().take(self.regular);
        let mut expected = learned.enumerate().filter(|(_, level)| level.is_expected(now, cold_start));
        expected.next_back().map_or(0, |(index, _)| index as u32 + 1)
    }

    /// Returns how long this replica (1 is the first) has not been needed, and its history.
    pub(crate) fn unneeded(&self, level: u32, now: Duration) -> Option<(Duration, &Level)> {
        let index = (level as usize).checked_sub(1)?;
        let last_needed = self.levels.get(index)?.last_needed;
        let past = self.levels.get(index.min(LEARNED - 1))?;
        Some((now.saturating_sub(last_needed), past))
    }

    /// Marks every replica as stopped, so that none is kept.
    pub(crate) fn clear(&mut self) {
        self.kept = 0;
    }

    /// Records the decided number of replicas.
    pub(crate) fn decided(&mut self, replicas: u32) {
        self.known = self.known.max(replicas);
    }

    fn touch(&mut self, replicas: u32, now: Duration) {
        let replicas = replicas as usize;
        if self.levels.len() < replicas {
            self.levels.resize_with(replicas, || Level::new(now));
        }
        for level in &mut self.levels[..replicas] {
            level.last_needed = now;
        }
        self.kept = self.kept.max(replicas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn set(levels: &mut Levels, replicas: u32, second: u64) {
        levels.set(replicas, at(second), at(1));
    }

    #[test]
    fn each_replica_is_kept_from_the_time_it_was_last_needed() {
        let mut levels = Levels::default();
        set(&mut levels, 3, 0);
        set(&mut levels, 2, 5);
        set(&mut levels, 1, 8);
        let mut kept = |second| levels.kept(at(second), 0, |_, _| at(10)).0;
        assert_eq!((kept(9), kept(10), kept(15), kept(18)), (3, 2, 1, 0));
        // A stopped level is not kept again.
        assert_eq!(levels.kept(at(18), 0, |_, _| at(100)), (0, at(0)));
    }

    #[test]
    fn a_raise_by_others_is_kept_and_distinguished_from_a_stopping_replica() {
        let mut levels = Levels::default();
        levels.adopt(4, at(0));
        assert_eq!(levels.kept(at(9), 0, |_, _| at(10)), (4, at(1)));
        assert_eq!(levels.kept(at(10), 0, |_, _| at(10)).0, 0);
        levels.decided(0);
        // The cluster is slow to follow.
        levels.adopt(4, at(11));
        assert_eq!(levels.kept(at(11), 0, |_, _| at(10)).0, 0);
        levels.adopt(0, at(12));
        levels.adopt(2, at(13));
        assert_eq!(levels.kept(at(14), 0, |_, _| at(10)), (2, at(9)));
    }

    #[test]
    fn without_retention_a_needed_replica_is_still_kept_now() {
        let mut levels = Levels::default();
        set(&mut levels, 1, 3);
        assert_eq!(levels.kept(at(3), 0, |_, _| Duration::ZERO), (1, at(0)));
        assert_eq!(levels.kept(at(4), 0, |_, _| Duration::ZERO).0, 0);
    }

    #[test]
    fn each_level_learns_its_own_gaps() {
        let mut levels = Levels::default();
        for cycle in 0..10 {
            set(&mut levels, 1, 100 * cycle);
            set(&mut levels, 2, 100 * cycle + 50);
        }
        let keep = |level| {
            let (_, past) = levels.unneeded(level, at(1000)).unwrap();
            past.gaps().keep(at(300)).unwrap().as_secs()
        };
        assert_eq!((keep(1), keep(2)), (52, 105));
        assert_eq!(levels.unneeded(3, at(1000)), None);
    }
}
