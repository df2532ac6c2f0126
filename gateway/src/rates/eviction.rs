//! The choice of entries that are removed from a full table of buckets.
//!
//! A full bucket has the same effect as none, so the removal of its entry changes nothing. If no bucket is full, the
//! entries of those that will be full soonest are removed, because these clients gain the fewest units by it. So a
//! client whose bucket has a debt, or that is refused, stays limited, whatever number of other names send requests.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

/// Part of the entries that is removed at once if no bucket is full, as a divisor. A search for them visits the whole
/// table, so it should be rare.
const PART: usize = 16;

/// Removes the entries of all full buckets, or, if there are none, a sixteenth of the entries and at least one: those
/// whose buckets are full soonest.
pub(crate) fn make_room<B: Clone + Eq + Hash>(buckets: &mut HashMap<B, Instant, impl BuildHasher>, now: Instant) {
    let before = buckets.len();
    buckets.retain(|_, full_at| *full_at > now);
    if buckets.is_empty() || buckets.len() < before {
        return;
    }
    let mut times: Vec<Instant> = buckets.values().copied().collect();
    let (_, last_removed, _) = times.select_nth_unstable((before / PART).saturating_sub(1));
    let last_removed = *last_removed;
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
        fn a_bucket_is_removed_only_after_all_that_are_full_sooner_and_no_debt_while_one_is_full(
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
            prop_assert!(kept.len() < all.len());
            prop_assert!(kept.iter().all(|(number, full_at)| all[number] == *full_at));
            prop_assert!(kept.values().all(|full_at| *full_at > now));
            let last_removed = removed().max().unwrap();
            prop_assert!(kept.values().all(|full_at| *full_at > last_removed));
            prop_assert!(removed().all(|full_at| full_at <= now) || all.values().all(|full_at| *full_at > now));
        }
    }
}
