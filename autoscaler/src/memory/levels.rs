//! When each replica was last needed.

use std::time::Duration;

/// For the first, the second, the third replica and so on: when it was last needed. What needs three
/// needs two, so later levels were never needed later.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Levels {
    last: Vec<Duration>,
    /// As many replicas as were asked for, by us or by somebody else.
    known: u32,
}

/// Who asked for the replicas there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// We asked for no fewer.
    Ours,
    /// Somebody wants more than we did.
    More,
}

impl Levels {
    /// So many replicas are asked for. Those that we did not ask for count as needed now: whoever wants
    /// them has a reason, and we have not seen what they did before.
    pub(crate) fn meet(&mut self, wanted: u32, now: Duration) -> Met {
        let met = match wanted > self.known {
            true => Met::More,
            false => Met::Ours,
        };
        if met == Met::More {
            self.need(wanted, now);
        }
        self.known = wanted;
        met
    }

    /// So many replicas are needed now.
    pub(crate) fn need(&mut self, replicas: u32, now: Duration) {
        let needed = replicas as usize;
        if self.last.len() < needed {
            self.last.resize(needed, now);
        }
        self.last[..needed].fill(now);
    }

    /// How many are kept, when each is for as long as `keep` says of it (1 is the first); the others are
    /// forgotten.
    pub(crate) fn kept(&mut self, now: Duration, keep: impl Fn(u32) -> Duration) -> u32 {
        let is_kept = |(index, last): (usize, &Duration)| {
            let level = index as u32 + 1;
            now == *last || now.saturating_sub(*last) < keep(level)
        };
        let top = self.last.iter().enumerate().rev().find(|at| is_kept(*at));
        let kept = top.map_or(0, |(index, _)| index + 1);
        self.last.truncate(kept);
        kept as u32
    }

    /// For how long this replica (1 is the first), which is still kept, was not needed.
    pub(crate) fn unneeded(&self, level: u32, now: Duration) -> Duration {
        let index = (level as usize).saturating_sub(1);
        let last = self.last.get(index).copied().unwrap_or(now);
        now.saturating_sub(last)
    }

    /// None is kept.
    pub(crate) fn forget(&mut self) {
        self.last.clear();
    }

    /// So many will be asked for.
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
    fn each_level_is_kept_from_when_it_was_needed() {
        let mut levels = Levels::default();
        levels.need(3, at(0));
        levels.need(2, at(5));
        levels.need(1, at(8));
        let mut kept = |second| levels.kept(at(second), |_| at(10));
        assert_eq!((kept(9), kept(10), kept(15), kept(18)), (3, 2, 1, 0));
    }

    #[test]
    fn what_others_asked_for_is_kept_and_what_we_end_is_not_taken_for_it() {
        let mut levels = Levels::default();
        levels.meet(4, at(0));
        assert_eq!(levels.kept(at(9), |_| at(10)), 4);
        assert_eq!(levels.kept(at(10), |_| at(10)), 0);
        levels.decided(0);
        // The cluster is slow to follow.
        levels.meet(4, at(11));
        assert_eq!(levels.kept(at(11), |_| at(10)), 0);
        levels.meet(0, at(12));
        levels.meet(2, at(13));
        assert_eq!(levels.kept(at(14), |_| at(10)), 2);
    }

    #[test]
    fn without_retention_a_needed_level_is_still_kept_now() {
        let mut levels = Levels::default();
        levels.need(1, at(3));
        assert_eq!(levels.kept(at(3), |_| Duration::ZERO), 1);
        assert_eq!(levels.kept(at(4), |_| Duration::ZERO), 0);
    }
}
