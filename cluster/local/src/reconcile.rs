//! The replicas to start and to stop.

use std::sync::Arc;

use weir_cluster::{Phase, Replica};

/// One change to the replicas of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Starts one more replica.
    Start,
    /// Stops the replica of this name.
    Stop(Arc<str>),
}

/// The actions that lead from these replicas, oldest first, to `desired` of them. The ones that serve least go first,
/// and of equals the youngest: its caches are the coldest.
pub(crate) fn actions(desired: usize, replicas: &[Replica]) -> Vec<Action> {
    let counted = replicas.iter().filter(|replica| replica.phase.is_counted());
    let mut counted: Vec<_> = counted.collect();
    let missing = desired.saturating_sub(counted.len());
    if missing > 0 {
        return vec![Action::Start; missing];
    }
    // A stable sort keeps the oldest of equals in front.
    counted.sort_by_key(|replica| rank(replica.phase));
    let surplus = counted.split_off(desired);
    surplus
        .iter()
        .map(|replica| Action::Stop(replica.name.clone()))
        .collect()
}

/// The lower, the more it is worth keeping.
fn rank(phase: Phase) -> u8 {
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
    use weir_cluster::Endpoints;

    use super::*;

    fn replicas(phases: &[Phase]) -> Vec<Replica> {
        let named = phases.iter().enumerate().map(|(i, phase)| Replica {
            name: format!("r{i}").into(),
            phase: *phase,
            endpoints: Endpoints::default(),
            restarts: 0,
            failure: None,
            last_exit: None,
        });
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
    fn the_youngest_of_the_useless_goes_first() {
        let all = replicas(&[Phase::BackOff, Phase::Ready, Phase::BackOff, Phase::Ready]);
        let stop = |name: &str| Action::Stop(name.into());
        assert_eq!(actions(3, &all), [stop("r2")]);
        assert_eq!(actions(1, &all), [stop("r3"), stop("r0"), stop("r2")]);
        assert_eq!(actions(5, &all), [Action::Start]);
    }

    proptest! {
        #[test]
        fn the_desired_number_is_reached(desired in 0usize..8, phases in proptest::collection::vec(phase(), 0..8)) {
            let all = replicas(&phases);
            let actions = actions(desired, &all);
            let stopped: Vec<_> = actions.iter().filter_map(|action| match action {
                Action::Stop(name) => Some(name.clone()),
                Action::Start => None,
            }).collect();
            let starts = actions.len() - stopped.len();
            prop_assert!(starts == 0 || stopped.is_empty());
            let counted: Vec<_> = all.iter().filter(|r| r.phase.is_counted()).collect();
            prop_assert_eq!(counted.len() + starts - stopped.len(), desired);
            let left = |r: &&&Replica| !stopped.contains(&r.name);
            let worst_kept = counted.iter().filter(left).map(|r| rank(r.phase)).max();
            for removed in counted.iter().filter(|r| !left(r)) {
                prop_assert!(worst_kept.is_none_or(|kept| kept <= rank(removed.phase)));
            }
        }
    }
}
