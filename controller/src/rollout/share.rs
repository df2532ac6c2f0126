//! Share of the requests that a candidate's ready replicas may have.
//!
//! If the requests need four replicas and the candidate has one ready, the candidate gets a quarter of them, whatever
//! share its stage demands. Thus no replica of either revision has more requests than a stable one had before.

use std::time::Duration;

use super::{Candidate, CandidateShare, Evidence, Rollout};

/// Longest time for which a share waits for the next replica: Kubernetes' default of `progressDeadlineSeconds`.
/// Afterwards the candidate gets the whole share of its stage, so that a replica that never comes does not stop a
/// rollout.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Ready replicas of both revisions, and the number that all requests of the service need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replicas {
    pub(super) candidate: u32,
    pub(super) stable: u32,
    pub(super) needed: u32,
}

/// Returns the candidate's next share in percent. It grows up to the target as replicas become ready, and falls to a
/// lower target at once. A candidate without a ready replica gets no more than it has.
pub(super) fn next_percent(rollout: &Rollout, candidate: &Candidate, evidence: &Evidence, waited: Duration) -> u8 {
    let CandidateShare { percent, target } = candidate.share;
    let own = evidence.capacity(Some(&candidate.revision));
    if percent >= target {
        return target;
    }
    if own.ready == 0 {
        return percent;
    }
    if waited >= LONGEST_WAIT {
        return target;
    }
    let most = evidence.most.unwrap_or(u32::MAX);
    let fair = fair_percent(Replicas {
        candidate: own.ready,
        stable: evidence.capacity(rollout.stable.as_ref()).ready,
        needed: rollout.needed_replicas.min(most),
    });
    percent.max(fair.min(target))
}

/// Returns the share in percent that keeps the replicas of both revisions equally busy, if the stable revision does not
/// have more replicas than it needs.
pub(super) fn fair_percent(replicas: Replicas) -> u8 {
    let own = u64::from(replicas.candidate);
    let both = own + u64::from(replicas.stable);
    let needed = u64::from(replicas.needed).clamp(1, both.max(1));
    u8::try_from((100 * own / needed).min(100)).unwrap_or(100)
}

/// Returns the replicas for a part of the requests, given in percent, when the service's whole traffic needs `needed`.
pub(super) fn part(needed: u32, percent: u8) -> u32 {
    let part = (u64::from(needed) * u64::from(percent)).div_ceil(100);
    u32::try_from(part).unwrap_or(u32::MAX)
}

/// Returns the replicas that the service's whole traffic needs, estimated from two revisions that scale on their own
/// traffic. Each has enough for its share, so the smaller estimate of the whole suffices.
pub(super) fn whole(stable: u32, candidate: u32, percent: u8) -> u32 {
    let whole = |replicas: u32, percent: u8| {
        let whole = (u64::from(replicas) * 100).checked_div(u64::from(percent));
        whole.map_or(u32::MAX, |whole| u32::try_from(whole).unwrap_or(u32::MAX))
    };
    match percent {
        0 => stable,
        _ => whole(stable, 100_u8.saturating_sub(percent)).min(whole(candidate, percent)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fair(candidate: u32, stable: u32, needed: u32) -> u8 {
        fair_percent(Replicas { candidate, stable, needed })
    }

    #[test]
    fn each_ready_replica_of_four_brings_a_quarter_of_the_requests() {
        let shares = [0, 1, 2, 3, 4, 5].map(|ready| fair(ready, 4, 4));
        assert_eq!(shares, [0, 25, 50, 75, 100, 100]);
    }

    #[test]
    fn a_stable_revision_that_lacks_replicas_leaves_a_larger_share() {
        assert_eq!(fair(1, 1, 4), 50);
        assert_eq!(fair(1, 0, 4), 100);
        assert_eq!(fair(1, 0, 0), 100);
    }

    #[test]
    fn the_whole_is_estimated_from_both_revisions() {
        assert_eq!(whole(4, 0, 0), 4);
        assert_eq!(whole(2, 2, 50), 4);
        assert_eq!(whole(4, 1, 20), 5);
        assert_eq!(whole(4, 4, 20), 5);
        assert_eq!(whole(0, 3, 100), 3);
    }

    proptest! {
        #[test]
        fn no_replica_of_the_candidate_has_more_requests_than_a_stable_one(
            candidate in 1_u32..50, stable in 0_u32..50, needed in 0_u32..50,
        ) {
            let percent = u32::from(fair(candidate, stable, needed));
            prop_assert!(percent <= 100);
            let enough = needed.min(candidate + stable).max(1);
            prop_assert!(percent * enough <= 100 * candidate, "{} for {}", percent, candidate);
            prop_assert!(u32::from(fair(candidate + 1, stable, needed)) >= percent);
            prop_assert!(candidate < needed || percent == 100);
        }

        #[test]
        fn parts_of_the_replicas_suffice_for_the_whole(needed in 0_u32..1000, percent in 0_u8..=100) {
            let (one, other) = (part(needed, percent), part(needed, 100 - percent));
            prop_assert!(one + other >= needed && one + other <= needed + 1);
        }
    }
}
