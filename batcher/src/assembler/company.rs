//! Decides if a queue delay is worth waiting for, from the numbers of items that earlier waits gathered.

use std::collections::VecDeque;

/// Number of equal waits after which a further wait is expected to gather the same number of items. In a stream of
/// requests that arrive independently of each other, one per delay on average, four waits in a row gather only their
/// first item with a probability of 2 %.
const ALIKE: usize = 4;

/// Number of batches that run early between two trial waits, at first.
const FIRST_PAUSE: u32 = 8;

/// Largest number of batches that run early between two trial waits. A trial wait delays the requests of a lone client
/// in vain, so fewer than one request in a hundred meets one, and the client's 99th percentile shows none.
const LONGEST_PAUSE: u32 = 128;

/// The items that gathered during the latest queue delays of a group.
///
/// Each batch waits for the whole delay while waits gather different numbers of items. If the latest waits all
/// gathered the same number, as with a fixed number of clients that wait for their responses, a batch runs as soon as
/// it has this number of items. A trial wait now and then, and every arrival that meets more items than any of these
/// waits did, show that there are more items to gather.
#[derive(Clone, Debug)]
pub(super) struct Company {
    /// The latest waits, oldest first; at most [`ALIKE`].
    waits: VecDeque<Wait>,
    /// Maximum number of items that were queued or running at the same time since the latest wait.
    peak: usize,
    /// Number of batches that ran early since the last trial wait.
    early: u32,
    /// Number of batches to run early until the next trial wait.
    pause: u32,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    gathered: usize,
    /// Maximum number of items that were queued or running at the same time between the previous wait and this one.
    peak: usize,
}

/// The reason for which a batch is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formed {
    /// The batch is full, or its delay is over.
    AfterWait,
    /// No more items are expected.
    Early,
}

impl Default for Company {
    fn default() -> Self {
        Self { waits: VecDeque::with_capacity(ALIKE), peak: 0, early: 0, pause: FIRST_PAUSE }
    }
}

impl Company {
    /// Returns true if a wait is likely to gather more items than the `gathered` ones, or is due as a trial.
    pub(super) fn is_likely(&self, gathered: usize) -> bool {
        self.usual().is_none_or(|usual| gathered < usual || self.early >= self.pause)
    }

    /// Records the arrival of an item that makes `together` items of the group, queued or running.
    pub(super) fn arrived(&mut self, together: usize) {
        self.peak = self.peak.max(together);
        if self.waits.iter().all(|wait| wait.peak < together) {
            self.forget();
        }
    }

    /// Records that a batch was formed when `gathered` items were queued.
    pub(super) fn formed(&mut self, gathered: usize, formed: Formed) {
        match formed {
            Formed::Early => self.early += 1,
            Formed::AfterWait => {
                self.end_trial(gathered);
                if self.waits.len() == ALIKE {
                    self.waits.pop_front();
                }
                self.waits.push_back(Wait { gathered, peak: self.peak.max(gathered) });
                self.peak = 0;
            }
        }
    }

    /// Ends a trial wait. If it gathered no more items, the next trial waits become rarer; otherwise the observation
    /// starts again.
    fn end_trial(&mut self, gathered: usize) {
        let Some(usual) = self.usual().filter(|_| self.early >= self.pause) else {
            return;
        };
        self.early = 0;
        if gathered > usual {
            self.forget();
        } else {
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn forget(&mut self) {
        self.waits.clear();
        self.early = 0;
        self.pause = FIRST_PAUSE;
    }

    /// Returns the number of items that each of the latest waits gathered; `None` if the numbers differ or too few
    /// waits are known.
    fn usual(&self) -> Option<usize> {
        let last = self.waits.back().filter(|_| self.waits.len() == ALIKE)?.gathered;
        self.waits.iter().all(|wait| wait.gathered == last).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(gathered: usize) -> Company {
        let mut company = Company::default();
        for _ in 0..ALIKE {
            company.arrived(gathered);
            company.formed(gathered, Formed::AfterWait);
        }
        company
    }

    #[test]
    fn every_batch_waits_until_four_waits_gathered_the_same_number() {
        let mut company = Company::default();
        for gathered in [1, 1, 2, 1, 1, 1] {
            assert!(company.is_likely(9), "after {:?}", company.waits);
            company.formed(gathered, Formed::AfterWait);
        }
        company.formed(1, Formed::AfterWait);
        assert!(!company.is_likely(1));
    }

    #[test]
    fn a_batch_waits_for_the_usual_number_of_items_and_not_for_more() {
        let company = settled(8);
        assert!(company.is_likely(7));
        assert!(!company.is_likely(8));
    }

    #[test]
    fn an_arrival_that_meets_more_items_than_usual_brings_the_wait_back() {
        let mut company = settled(1);
        company.arrived(1);
        assert!(!company.is_likely(1));
        company.arrived(2);
        assert!(company.is_likely(1));
    }

    #[test]
    fn trial_waits_in_vain_become_rare() {
        let mut company = settled(1);
        let mut trials = Vec::new();
        for batch in 0..1_000 {
            let waits = company.is_likely(1);
            trials.extend(waits.then_some(batch));
            company.formed(1, if waits { Formed::AfterWait } else { Formed::Early });
        }
        assert_eq!(trials, [8, 25, 58, 123, 252, 381, 510, 639, 768, 897]);
    }

    #[test]
    fn a_trial_wait_that_gathers_more_brings_the_wait_back() {
        let mut company = settled(1);
        for _ in 0..FIRST_PAUSE {
            company.formed(1, Formed::Early);
        }
        company.formed(3, Formed::AfterWait);
        assert!(company.is_likely(1) && company.is_likely(3));
    }
}
