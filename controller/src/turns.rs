//! Turns of services to follow a changed runtime, which gives each service that uses it a new revision. Only a few roll
//! at once, so that a broken runtime harms few services, and the cluster needs room for the extra revisions of few.
//! Pure.

use std::collections::BTreeSet;

use weir_cluster::{RevisionName, ServiceName, Snapshot};

use crate::history::{History, RuntimeChange};
use crate::manifest::validate::{AutoUpdate, Validated};
use crate::rollout::{Stage, Strategy};

/// Services that may roll at once because of a changed runtime.
pub(crate) const AT_ONCE: usize = 4;

/// Longest time in seconds for which a service counts as rolling: Kubernetes' default of `progressDeadlineSeconds`.
const SLOW: u64 = 600;

/// The same limit for a service whose new revision fails: time to undo the change before it reaches further services.
const FAILED: u64 = 60;

/// Role of a service in the rolling update of a changed runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RollRole {
    /// The service has the present runtime, or does not follow it.
    #[default]
    None,
    /// The service waits for its turn to follow.
    Waiting,
    /// The service follows the change. It stops counting as rolling at `until`, in seconds since 1970.
    Rolling { until: u64 },
}

/// Permission for a service to follow a changed runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// The service may follow now.
    Now,
    /// The service waits while others follow.
    Later,
}

/// Service in the order of turns.
pub(crate) struct TurnEntry<'a> {
    pub(crate) service: &'a ServiceName,
    pub(crate) role: RollRole,
    /// Time of the service's last turn, in seconds since 1970; 0 before the first.
    pub(crate) last: u64,
}

impl RollRole {
    /// Returns the role of a service that has just begun to roll.
    pub(crate) fn begun(now: u64) -> Self {
        Self::Rolling { until: now.saturating_add(SLOW) }
    }

    pub(crate) fn is_rolling(self, now: u64) -> bool {
        matches!(self, Self::Rolling { until } if now < until)
    }
}

/// Returns the services that get a turn now, in addition to those that already roll. The service whose last turn is
/// longest ago comes first, so that one that cannot follow does not block the others.
pub(crate) fn next<'a>(entries: impl IntoIterator<Item = TurnEntry<'a>>, now: u64) -> Vec<ServiceName> {
    let (rolling, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.role.is_rolling(now));
    let waiting = others.iter().filter(|entry| entry.role == RollRole::Waiting);
    let in_order: BTreeSet<_> = waiting.map(|entry| (entry.last, entry.service)).collect();
    let free = AT_ONCE.saturating_sub(rolling.len());
    let turns = in_order.into_iter().take(free);
    turns.map(|(_, service)| service.clone()).collect()
}

/// Returns how a service treats a changed runtime now.
pub(crate) fn change(validated: &Validated, history: &History, snapshot: &Snapshot, turn: Follow) -> RuntimeChange {
    match turn {
        // A stopped service runs no pods, so it may follow at once.
        _ if validated.is_stopped => RuntimeChange::Follow,
        _ if keeps_runtime(validated, history, snapshot) => RuntimeChange::Hold,
        Follow::Now => RuntimeChange::Follow,
        Follow::Later => RuntimeChange::Hold,
    }
}

/// Returns true if an annotation makes a service keep the runtime with which it was made. It applies only to a revision
/// that works or is scaled to zero.
pub(crate) fn keeps_runtime(validated: &Validated, history: &History, snapshot: &Snapshot) -> bool {
    let works = |name: &RevisionName| {
        let revision = snapshot.revision(name);
        let fails = revision.is_some_and(|revision| {
            revision.failure.is_some() && revision.ready().next().is_none() && !revision.is_at_zero()
        });
        history.has_loaded(name) && !fails
    };
    validated.auto_update == AutoUpdate::Disabled && history.rollout.stable.as_ref().is_some_and(works)
}

/// Returns the role of a service as its history and its pods show it.
pub(crate) fn role(validated: &Validated, history: &History, snapshot: &Snapshot, now: u64) -> RollRole {
    if validated.is_stopped {
        return RollRole::None;
    }
    match rolling(history, snapshot).filter(|role| role.is_rolling(now)) {
        Some(rolling) => rolling,
        None if keeps_runtime(validated, history, snapshot) => RollRole::None,
        None if history.is_behind(validated) => RollRole::Waiting,
        None => RollRole::None,
    }
}

/// Returns the role of a service whose newest revision a changed runtime made, until that revision serves.
fn rolling(history: &History, snapshot: &Snapshot) -> Option<RollRole> {
    let roll = history.runtime_roll.as_ref()?;
    if !is_under_way(history, &roll.revision) {
        return None;
    }
    let fails = snapshot
        .revision(&roll.revision)
        .is_some_and(|revision| revision.failure.is_some() && revision.ready().next().is_none());
    let limit = if fails { FAILED } else { SLOW };
    let until = roll.since.saturating_add(limit);
    Some(RollRole::Rolling { until })
}

fn is_under_way(history: &History, revision: &RevisionName) -> bool {
    let rollout = &history.rollout;
    let candidate = rollout.candidate.as_ref();
    match candidate.filter(|candidate| candidate.revision == *revision) {
        Some(candidate) => match (&candidate.stage, &rollout.strategy) {
            (Stage::Waiting, Strategy::Manual(_) | Strategy::Automatic(_))
            | (Stage::Shifting(_), Strategy::Manual(None) | Strategy::Automatic(_)) => true,
            // A manual share waits for the user; a rolled-back rollout is finished.
            (Stage::Shifting(_), Strategy::Manual(Some(_))) | (Stage::RolledBack(_), _) => false,
        },
        None => history.is_in_use(revision) && !history.has_loaded(revision),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use std::sync::Arc;

    use weir_cluster::{Failure, FailureReason, Ledger, Revisions};

    use super::{
        AT_ONCE, FAILED, Follow, History, RollRole, RuntimeChange, SLOW, ServiceName, Snapshot, TurnEntry, Validated,
        change, next,
    };
    use crate::fixtures::{change_pods, model, validated};
    use crate::history::{LoadState, revise};
    use crate::plan::plan;

    fn service(number: usize) -> ServiceName {
        ServiceName::new("default", &format!("s{number}")).unwrap()
    }

    fn entries(parts: &BTreeMap<ServiceName, (RollRole, u64)>) -> impl Iterator<Item = TurnEntry<'_>> {
        parts.iter().map(|(service, (role, last))| TurnEntry { service, role: *role, last: *last })
    }

    /// End of a service's turn in the simulation.
    #[derive(Clone, Copy, Debug)]
    enum End {
        /// The service follows within this number of seconds.
        Follows(u64),
        /// The new revision fails at once.
        Fails,
        /// The new revision neither starts nor fails.
        Hangs,
        /// The service cannot begin, and waits again.
        Refused,
    }

    fn end() -> impl proptest::strategy::Strategy<Value = End> {
        prop_oneof![
            6 => (1_u64..90).prop_map(End::Follows),
            1 => Just(End::Fails),
            1 => Just(End::Hangs),
            1 => Just(End::Refused),
        ]
    }

    fn role() -> impl proptest::strategy::Strategy<Value = (RollRole, u64)> {
        let role = prop_oneof![
            Just(RollRole::None),
            Just(RollRole::Waiting),
            (0_u64..40).prop_map(|until| RollRole::Rolling { until }),
        ];
        (role, 0_u64..5)
    }

    /// Case of a service that serves, and whose runtime changed at 100 s.
    struct Case {
        validated: Validated,
        history: History,
    }

    impl Case {
        fn new(annotations: &[(&str, &str)], turn: Follow) -> Self {
            let before = validated(annotations, &model("a", &[]));
            let mut history = revise(&before, &History::default(), RuntimeChange::Follow, 0).unwrap();
            history.records[0].load = LoadState::Now;
            let mut validated = before;
            change_pods(&mut validated, "later");
            let change = change(&validated, &history, &Snapshot::default(), turn);
            let history = revise(&validated, &history, change, 100).unwrap();
            Self { validated, history }
        }

        /// Returns the cluster's state in which the revision of this number fails.
        fn snapshot(&self, failing: u32) -> Snapshot {
            let mut ledger = Ledger::new();
            let plan = plan(&self.validated, &self.history, 100).unwrap();
            ledger.apply(plan.desired).unwrap();
            let mut revisions = Revisions::new();
            ledger.refresh(&mut revisions);
            let named = revisions.iter_mut().filter(|(name, _)| name.number() == failing);
            for (_, revision) in named {
                let failure = Failure::new(FailureReason::Exited, "it ends");
                Arc::make_mut(revision).failure = Some(failure);
            }
            Snapshot { revisions: Arc::new(revisions), ..Snapshot::default() }
        }

        fn role(&self, failing: u32, now: u64) -> RollRole {
            super::role(&self.validated, &self.history, &self.snapshot(failing), now)
        }
    }

    #[test]
    fn a_service_waits_for_its_turn_and_then_counts_until_it_serves() {
        assert_eq!(Case::new(&[], Follow::Later).role(0, 100), RollRole::Waiting);
        let mut given = Case::new(&[], Follow::Now);
        assert_eq!(given.role(0, 100), RollRole::Rolling { until: 100 + SLOW });
        assert_eq!(given.role(2, 100), RollRole::Rolling { until: 100 + FAILED });
        assert_eq!(given.role(2, 100 + FAILED), RollRole::None);
        given.history.rollout.stable = given.history.rollout.candidate.take().map(|c| c.revision);
        given.history.records[1].load = LoadState::Now;
        assert_eq!(given.role(0, 101), RollRole::None);
    }

    #[test]
    fn a_stopped_service_needs_no_turn() {
        let stop = [("serving.kserve.io/stop", "true")];
        let stopped = Case::new(&stop, Follow::Later);
        assert!(!stopped.history.is_behind(&stopped.validated));
        assert_eq!(stopped.role(0, 100), RollRole::None);
    }

    #[test]
    fn without_auto_update_only_a_working_service_keeps_its_runtime() {
        let disabled = [("serving.kserve.io/disable-auto-update", "true")];
        let case = Case::new(&disabled, Follow::Now);
        assert_eq!(case.history.records.len(), 1);
        assert_eq!(case.role(0, 100), RollRole::None);
        assert_eq!(case.role(1, 100), RollRole::Waiting);
        let of = |failing| change(&case.validated, &case.history, &case.snapshot(failing), Follow::Now);
        assert_eq!((of(0), of(1)), (RuntimeChange::Hold, RuntimeChange::Follow));
    }

    proptest! {
        #[test]
        fn turns_go_to_waiting_services_until_all_are_given(
            parts in proptest::collection::vec(role(), 0..20),
            now in 0_u64..40,
        ) {
            let parts: BTreeMap<_, _> = parts.into_iter().enumerate().map(|(i, role)| (service(i), role)).collect();
            let turns = next(entries(&parts), now);
            let count = |is_it: &dyn Fn(RollRole) -> bool| parts.values().filter(|(role, _)| is_it(*role)).count();
            let rolling = count(&|role| role.is_rolling(now));
            let waiting = count(&|role| role == RollRole::Waiting);
            prop_assert_eq!(turns.len(), waiting.min(AT_ONCE.saturating_sub(rolling)));
            prop_assert!(turns.iter().all(|service| parts[service].0 == RollRole::Waiting));
            let last = turns.iter().map(|service| parts[service].1).max().unwrap_or(0);
            let passed_over = parts.iter().filter(|(name, (role, _))| *role == RollRole::Waiting && !turns.contains(name));
            prop_assert!(passed_over.map(|(_, (_, before))| *before).all(|before| before >= last));
        }

        #[test]
        fn every_service_gets_a_turn_whatever_happens_to_others(ends in proptest::collection::vec(end(), 1..24)) {
            let services: Vec<_> = (0..ends.len()).map(service).collect();
            let mut parts: BTreeMap<_, _> = services.iter().map(|name| (name.clone(), (RollRole::Waiting, 0))).collect();
            let mut begun: BTreeMap<ServiceName, u64> = BTreeMap::new();
            for now in (1..(SLOW + 20) * (ends.len() as u64)).step_by(10) {
                for turn in next(entries(&parts), now) {
                    begun.entry(turn.clone()).or_insert(now);
                    parts.insert(turn, (RollRole::begun(now), now));
                }
                let rolling = parts.values().filter(|(role, _)| role.is_rolling(now)).count();
                prop_assert!(rolling <= AT_ONCE);
                for (service, end) in services.iter().zip(&ends) {
                    let (role, last) = parts[service];
                    let next = match (end, role) {
                        (End::Follows(time), RollRole::Rolling { .. }) if now >= last + time => RollRole::None,
                        (End::Fails, RollRole::Rolling { .. }) => RollRole::Rolling { until: last + FAILED },
                        (End::Refused, RollRole::Rolling { until }) if now >= until => RollRole::Waiting,
                        (_, role) => role,
                    };
                    parts.insert(service.clone(), (next, last));
                }
                if begun.len() == ends.len() {
                    return Ok(());
                }
            }
            prop_assert!(false, "{} of {} had a turn", begun.len(), ends.len());
        }
    }
}
