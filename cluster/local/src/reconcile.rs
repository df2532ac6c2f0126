//! Choice of the replicas to start and to stop.

use std::sync::Arc;

use weir_cluster::{Replica, ReplicaLoads, ScaleInCandidate, choose_scale_in};

/// One change to the replicas of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start one more replica.
    Start,
    /// Stop the replica of this name.
    Stop(Arc<str>),
}

/// Returns the actions that bring these replicas, given oldest first, to the number `desired`. Replicas to stop are
/// chosen as on Kubernetes, by the gateways' requests at them; on a tie the youngest stops first, because its caches
/// are the coldest.
pub(crate) fn actions(desired: usize, replicas: &[Replica], loads: &ReplicaLoads) -> Vec<Action> {
    let counted = replicas.iter().filter(|replica| replica.phase.is_counted());
    let youngest_first: Vec<_> = counted.rev().map(|replica| candidate(replica, loads)).collect();
    let missing = desired.saturating_sub(youngest_first.len());
    if missing > 0 {
        return vec![Action::Start; missing];
    }
    let surplus = youngest_first.len() - desired;
    let ending = choose_scale_in(youngest_first, surplus).into_iter();
    ending.map(Action::Stop).collect()
}

fn candidate(replica: &Replica, loads: &ReplicaLoads) -> ScaleInCandidate {
    ScaleInCandidate {
        name: replica.name.clone(),
        phase: replica.phase,
        load: loads.get(&replica.name).copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_cluster::{Phase, ReplicaLoad};

    use super::*;

    fn replicas(phases: &[Phase]) -> Vec<Replica> {
        let named = phases.iter().enumerate().map(|(i, phase)| Replica::new(format!("r{i}"), *phase));
        named.collect()
    }

    fn phase() -> impl Strategy<Value = Phase> {
        proptest::sample::select(vec![
            Phase::Pending,
            Phase::Starting,
            Phase::Ready,
            Phase::Unready,
            Phase::BackOff,
            Phase::Terminating,
        ])
    }

    #[test]
    fn replicas_that_do_not_serve_stop_first_and_the_youngest_of_them() {
        let all = replicas(&[Phase::BackOff, Phase::Ready, Phase::BackOff, Phase::Ready]);
        let stop = |name: &str| Action::Stop(name.into());
        let actions = |desired| actions(desired, &all, &ReplicaLoads::new());
        assert_eq!(actions(3), [stop("r2")]);
        assert_eq!(actions(1), [stop("r2"), stop("r0"), stop("r3")]);
        assert_eq!(actions(5), [Action::Start]);
    }

    #[test]
    fn an_older_idle_replica_ends_before_the_youngest_with_a_stream() {
        let all = replicas(&[Phase::Ready; 3]);
        let load = |streams, requests| ReplicaLoad { streams, requests };
        let loads = [("r2".into(), load(1, 1)), ("r0".into(), load(0, 4))].into();
        let stop = |name: &str| Action::Stop(name.into());
        assert_eq!(actions(2, &all, &loads), [stop("r1")]);
        assert_eq!(actions(1, &all, &loads), [stop("r1"), stop("r0")]);
    }

    proptest! {
        #[test]
        fn the_desired_number_is_reached(desired in 0usize..8, phases in proptest::collection::vec(phase(), 0..8)) {
            let all = replicas(&phases);
            let actions = actions(desired, &all, &ReplicaLoads::new());
            let stopped: Vec<_> = actions.iter().filter_map(|action| match action {
                Action::Stop(name) => Some(name.clone()),
                Action::Start => None,
            }).collect();
            let starts = actions.len() - stopped.len();
            prop_assert!(starts == 0 || stopped.is_empty());
            let counted: Vec<_> = all.iter().filter(|r| r.phase.is_counted()).collect();
            prop_assert_eq!(counted.len() + starts - stopped.len(), desired);
        }
    }
}
