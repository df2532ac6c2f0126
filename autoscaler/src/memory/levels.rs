//! When each number of replicas was last needed, and how long it pays to keep it.

use std::time::Duration;

use super::gaps::Gaps;
use super::rhythm::Rhythm;

/// For the first, the second, the third replica and so on: when it was last needed, and the gaps after which it
/// was needed again. What needs three needs two, so no later one was needed later.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Levels {
    levels: Vec<Level>,
    /// The most replicas that were asked for, by a decision or otherwise, and are not ended yet.
    known: u32,
}

/// One replica's past: 1 is the first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Level {
    last_needed: Duration,
    /// Since when it was needed, without a gap that counts.
    since: Duration,
    /// For how long it was needed at a time, before; unset the first time.
    usual: Option<Duration>,
    /// Whether it was not ended since.
    is_kept: bool,
    gaps: Gaps,
    rhythm: Rhythm,
}

impl Level {
    fn new(now: Duration) -> Self {
        Self {
            last_needed: now,
            since: now,
            usual: None,
            is_kept: true,
            gaps: Gaps::default(),
            rhythm: Rhythm::default(),
        }
    }

    /// The gaps after which it was needed again.
    pub(crate) fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// For how long it is needed at a time.
    pub(crate) fn needed(&self) -> Duration {
        let latest = self.last_needed.saturating_sub(self.since);
        self.usual.map_or(latest, |usual| (usual * 3 + latest) / 4)
    }

    /// Whether it is needed at regular intervals.
    pub(crate) fn is_regular(&self, cold_start: Duration) -> bool {
        self.rhythm.next(cold_start).is_some()
    }

    /// Whether a start now would be in time, and not too early, for the next time it is needed.
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

/// Levels whose gaps are learned. Those above are the load's noise in large services; they go with the last of
/// these, and the memory of a service stays small.
const LEARNED: usize = 64;

impl Levels {
    /// Whether more replicas are desired than was decided: they were asked for elsewhere.
    pub(crate) fn is_raised_elsewhere(&self, desired: u32) -> bool {
        desired > self.known
    }

    /// Takes in the number of replicas that are desired. Those that were asked for elsewhere count as needed now:
    /// there is a reason for them, and what they did before was not seen.
    pub(crate) fn adopt(&mut self, desired: u32, now: Duration) {
        if self.is_raised_elsewhere(desired) {
            self.touch(desired, now);
        }
        self.known = desired;
    }

    /// Notes that so many replicas are needed now, and the gaps that end with it; gaps below `least` tell nothing.
    pub(crate) fn set(&mut self, replicas: u32, now: Duration, least: Duration) {
        let known = self.levels.iter_mut().take(LEARNED.min(replicas as usize));
        for level in known {
            let gap = now.saturating_sub(level.last_needed);
            if gap > least {
                level.resume(now, gap);
            }
        }
        self.touch(replicas, now);
    }

    /// How many are kept, when each is for as long as `keep` says of it (1 is the first) and its gaps.
    pub(crate) fn kept(&mut self, now: Duration, keep: impl Fn(u32, &Level) -> Duration) -> u32 {
        let mut kept = 0;
        for index in (0..self.levels.len()).rev() {
            let level = &self.levels[index];
            let longest = keep(index as u32 + 1, &self.levels[index.min(LEARNED - 1)]);
            let unneeded = now.saturating_sub(level.last_needed);
            if level.is_kept && (unneeded.is_zero() || unneeded < longest) {
                kept = index + 1;
                break;
            }
        }
        for level in &mut self.levels[kept..] {
            level.is_kept = false;
        }
        kept as u32
    }

    /// The most replicas that a start now would be in time for, by the intervals at which they were needed before.
    pub(crate) fn expected(&self, now: Duration, cold_start: Duration) -> u32 {
        let learned = self.levels.iter().take(LEARNED);
        let mut expected = learned.enumerate().filter(|(_, level)| level.is_expected(now, cold_start));
        expected.next_back().map_or(0, |(index, _)| index as u32 + 1)
    }

    /// For how long this replica (1 is the first) was not needed, and its past.
    pub(crate) fn unneeded(&self, level: u32, now: Duration) -> Option<(Duration, &Level)> {
        let index = (level as usize).checked_sub(1)?;
        let last_needed = self.levels.get(index)?.last_needed;
        let past = self.levels.get(index.min(LEARNED - 1))?;
        Some((now.saturating_sub(last_needed), past))
    }

    /// Ends every replica, so that none is kept.
    pub(crate) fn clear(&mut self) {
        for level in &mut self.levels {
            level.is_kept = false;
        }
    }

    /// Notes the number of replicas that was decided.
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
            level.is_kept = true;
        }
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
    fn each_replica_is_kept_from_when_it_was_needed() {
        let mut levels = Levels::default();
        set(&mut levels, 3, 0);
        set(&mut levels, 2, 5);
        set(&mut levels, 1, 8);
        let mut kept = |second| levels.kept(at(second), |_, _| at(10));
        assert_eq!((kept(9), kept(10), kept(15), kept(18)), (3, 2, 1, 0));
        // What has ended is not kept again.
        assert_eq!(levels.kept(at(18), |_, _| at(100)), 0);
    }

    #[test]
    fn what_others_asked_for_is_kept_and_what_we_end_is_not_taken_for_it() {
        let mut levels = Levels::default();
        levels.adopt(4, at(0));
        assert_eq!(levels.kept(at(9), |_, _| at(10)), 4);
        assert_eq!(levels.kept(at(10), |_, _| at(10)), 0);
        levels.decided(0);
        // The cluster is slow to follow.
        levels.adopt(4, at(11));
        assert_eq!(levels.kept(at(11), |_, _| at(10)), 0);
        levels.adopt(0, at(12));
        levels.adopt(2, at(13));
        assert_eq!(levels.kept(at(14), |_, _| at(10)), 2);
    }

    #[test]
    fn without_retention_a_needed_replica_is_still_kept_now() {
        let mut levels = Levels::default();
        set(&mut levels, 1, 3);
        assert_eq!(levels.kept(at(3), |_, _| Duration::ZERO), 1);
        assert_eq!(levels.kept(at(4), |_, _| Duration::ZERO), 0);
    }

    #[test]
    fn each_learns_its_own_gaps() {
        let mut levels = Levels::default();
        for cycle in 0..10 {
            set(&mut levels, 1, 100 * cycle);
            set(&mut levels, 2, 100 * cycle + 50);
        }
        let keep = |level| {
            let (_, past) = levels.unneeded(level, at(1000)).unwrap();
            past.gaps().keep(at(300), at(7)).as_secs()
        };
        assert_eq!((keep(1), keep(2)), (52, 105));
        assert_eq!(levels.unneeded(3, at(1000)), None);
    }
}
