//! Choice of the replicas that a scale-in ends: a pure function, used on every platform.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::{Phase, ReplicaLoad};

/// A replica that a scale-in may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleInCandidate {
    /// Name of the replica.
    pub name: Arc<str>,
    /// Phase of the replica.
    pub phase: Phase,
    /// Requests that the gateways have in flight at the replica.
    pub load: ReplicaLoad,
}

/// Chooses the replicas that a scale-in ends, at most `count`, in the order in which they end. Replicas furthest from
/// serving (by phase) end first, then those with the fewest streams, then those with the fewest requests. An idle
/// replica therefore ends before any busy one, and no request is cut off while another choice exists. Candidates that
/// compare equal end in the caller's order.
#[must_use]
pub fn choose_scale_in(mut candidates: Vec<ScaleInCandidate>, count: usize) -> Vec<Arc<str>> {
    // A stable sort keeps equal candidates in the caller's order.
    candidates.sort_by_key(|candidate| (Reverse(distance_from_serving(candidate.phase)), candidate.load));
    let chosen = candidates.into_iter().take(count);
    chosen.map(|candidate| candidate.name).collect()
}

/// Returns how far a replica in this phase is from serving; 0 means that it serves.
fn distance_from_serving(phase: Phase) -> u8 {
    match phase {
        Phase::Ready => 0,
        Phase::Starting => 1,
        Phase::Unready => 2,
        Phase::Pending => 3,
        Phase::BackOff => 4,
        Phase::Terminating => 5,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate(name: &str, phase: Phase, (streams, requests): (u32, u32)) -> ScaleInCandidate {
        ScaleInCandidate { name: name.into(), phase, load: ReplicaLoad { streams, requests } }
    }

    fn chosen(candidates: &[ScaleInCandidate], count: usize) -> Vec<String> {
        let chosen = choose_scale_in(candidates.to_vec(), count);
        chosen.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_idle_replica_ends_before_one_with_a_request_and_a_stream_is_cut_last() {
        let ready = |name, load| candidate(name, Phase::Ready, load);
        let all = [ready("stream", (1, 1)), ready("busy", (0, 7)), ready("one", (0, 1)), ready("idle", (0, 0))];
        assert_eq!(chosen(&all, 1), ["idle"]);
        assert_eq!(chosen(&all, 3), ["idle", "one", "busy"]);
        assert_eq!(chosen(&all, 9), ["idle", "one", "busy", "stream"]);
    }

    #[test]
    fn a_replica_that_does_not_serve_ends_first_and_ties_keep_the_order() {
        let all = [
            candidate("b", Phase::Ready, (0, 0)),
            candidate("a", Phase::Ready, (0, 0)),
            candidate("crashed", Phase::BackOff, (0, 2)),
            candidate("starts", Phase::Starting, (0, 0)),
        ];
        assert_eq!(chosen(&all, 3), ["crashed", "starts", "b"]);
        assert_eq!(chosen(&all, 0), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn no_replica_ends_while_a_less_loaded_one_of_its_phase_stays(
            loads in proptest::collection::vec((0_u32..3, 0_u32..4), 0..8),
            count in 0_usize..9,
        ) {
            let all: Vec<_> = loads.iter().enumerate()
                .map(|(i, load)| candidate(&i.to_string(), Phase::Ready, *load))
                .collect();
            let chosen = chosen(&all, count);
            prop_assert_eq!(chosen.len(), count.min(all.len()));
            let (ends, stays): (Vec<_>, Vec<_>) = all.iter()
                .partition(|candidate| chosen.contains(&candidate.name.to_string()));
            let most_ended = ends.iter().map(|candidate| candidate.load).max();
            let least_kept = stays.iter().map(|candidate| candidate.load).min();
            prop_assert!(most_ended.is_none() || least_kept.is_none() || most_ended <= least_kept);
        }
    }
}
