//! The choice of entries that are removed from a full table of buckets.
//!
//! A full bucket has the same effect as none, so the removal of its entry changes nothing. If few buckets are full, the
//! entries of those that will be full soonest are removed as well, because these clients gain the fewest units by it. So
//! a client whose bucket has a debt, or that is refused, stays limited, whatever number of other names send requests.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

/// Part of the entries that is removed at least, as a divisor. A search for them visits the whole table, so it should be
/// rare.
const PART: usize = 16;

/// Removes the entries of all full buckets, and at least a sixteenth of the entries and one: those whose buckets are
/// full soonest.
pub(crate) fn make_room<B: Clone + Eq + Hash>(buckets: &mut HashMap<B, Instant, impl BuildHasher>, now: Instant) {
    let mut times: Vec<Instant> = buckets.values().copied().collect();
    if times.is_empty() {
        return;
    }
    let least = (times.len() / PART).max(1);
    let (_, soonest, _) = times.select_nth_unstable(least - 1);
    let last_removed = now.max(*soonest);
    buckets.retain(|_, full_at| *full_at > last_removed);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::clock;

    proptest! {
        #[test]
        fn full_buckets_and_a_sixteenth_are_removed_and_none_before_one_that_is_full_sooner(
            milliseconds in prop::collection::vec(0_u64..100, 1..200),
            passed in 0_u64..100,
        ) {
            let start = clock::now();
            let now = start + Duration::from_millis(passed);
            let all: HashMap<usize, Instant> =
                milliseconds.iter().map(|after| start + Duration::from_millis(*after)).enumerate().collect();
            let mut kept = all.clone();
            make_room(&mut kept, now);
            let removed = || all.iter().filter(|(number, _)| !kept.contains_key(*number)).map(|(_, full_at)| *full_at);
            prop_assert!(all.len() - kept.len() >= (all.len() / PART).max(1));
            prop_assert!(kept.iter().all(|(number, full_at)| all[number] == *full_at));
            prop_assert!(kept.values().all(|full_at| *full_at > now));
            let last_removed = removed().max().unwrap();
            prop_assert!(kept.values().all(|full_at| *full_at > last_removed));
            let before_last = removed().filter(|full_at| (now.max(*full_at)) < last_removed).count();
            prop_assert!(before_last < (all.len() / PART).max(1));
        }
    }
}
