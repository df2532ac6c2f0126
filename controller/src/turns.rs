//! A changed runtime gives every service that uses it a new revision: a few services at a time, so that a runtime that
//! does not work harms few, and the cluster needs room for both revisions of few. Pure.

use std::collections::BTreeSet;

use weir_cluster::{RevisionName, ServiceName, Snapshot};

use crate::history::{History, RuntimeChange};
use crate::rollout::{Stage, Strategy};
use crate::validate::{AutoUpdate, Validated};

/// Services that a changed runtime rolls at once.
pub(crate) const AT_ONCE: usize = 4;

/// Longest time for which a service counts as rolling, in seconds: Kubernetes' default of `progressDeadlineSeconds`.
const SLOW: u64 = 600;

/// As [`SLOW`], for one whose next revision fails: time to undo the change before it reaches further services.
const FAILED: u64 = 60;

/// Part of a service in the rolling of a changed runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Part {
    /// It has the runtime as it is, or does not follow it.
    #[default]
    None,
    /// It will follow when it is its turn.
    Waiting,
    /// It follows; from this time on, in seconds since 1970, it no longer counts.
    Rolling { until: u64 },
}

/// Permission of one service to take a changed runtime, a few services at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// It may follow now.
    Now,
    /// Others may follow first.
    Later,
}

/// A service in the order of turns.
pub(crate) struct Place<'a> {
    pub(crate) service: &'a ServiceName,
    pub(crate) part: Part,
    /// Time of its last turn, in seconds since 1970; 0 before the first.
    pub(crate) last: u64,
}

impl Part {
    /// Part of a service that has just begun to roll.
    pub(crate) fn begun(now: u64) -> Self {
        Self::Rolling { until: now.saturating_add(SLOW) }
    }

    pub(crate) fn is_rolling(self, now: u64) -> bool {
        matches!(self, Self::Rolling { until } if now < until)
    }
}

/// The services whose turn it is now, beside those that roll already. Who had no turn yet comes first, so that one that
/// cannot follow keeps nobody waiting for ever.
pub(crate) fn next<'a>(places: impl IntoIterator<Item = Place<'a>>, now: u64) -> Vec<ServiceName> {
    let (rolling, others): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| place.part.is_rolling(now));
    let waiting = others.iter().filter(|place| place.part == Part::Waiting);
    let in_order: BTreeSet<_> = waiting.map(|place| (place.last, place.service)).collect();
    let free = AT_ONCE.saturating_sub(rolling.len());
    let turns = in_order.into_iter().take(free);
    turns.map(|(_, service)| service.clone()).collect()
}

/// What becomes of a changed runtime in one service now.
pub(crate) fn change(validated: &Validated, history: &History, snapshot: &Snapshot, turn: Follow) -> RuntimeChange {
    match turn {
        // Nothing runs.
        _ if validated.is_stopped => RuntimeChange::Follow,
        _ if keeps_runtime(validated, history, snapshot) => RuntimeChange::Hold,
        Follow::Now => RuntimeChange::Follow,
        Follow::Later => RuntimeChange::Hold,
    }
}

/// Tells whether a service keeps the runtime that it was made with, as it is asked to: one that works, or sleeps.
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

/// The part of a service as its history and its pods show it.
pub(crate) fn part(validated: &Validated, history: &History, snapshot: &Snapshot, now: u64) -> Part {
    if validated.is_stopped {
        return Part::None;
    }
    match rolling(history, snapshot).filter(|part| part.is_rolling(now)) {
        Some(rolling) => rolling,
        None if keeps_runtime(validated, history, snapshot) => Part::None,
        None if history.is_behind(validated) => Part::Waiting,
        None => Part::None,
    }
}

/// The part of a service whose newest revision a changed runtime made, until that serves.
fn rolling(history: &History, snapshot: &Snapshot) -> Option<Part> {
    let roll = history.runtime_roll.as_ref()?;
    if !is_under_way(history, &roll.revision) {
        return None;
    }
    let fails = snapshot
        .revision(&roll.revision)
        .is_some_and(|revision| revision.failure.is_some() && revision.ready().next().is_none());
    let limit = if fails { FAILED } else { SLOW };
    let until = roll.since.saturating_add(limit);
    Some(Part::Rolling { until })
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
        AT_ONCE, FAILED, Follow, History, Part, Place, RuntimeChange, SLOW, ServiceName, Snapshot, Validated, change,
        next,
    };
    use crate::fixtures::{change_pods, model, validated};
    use crate::history::{LoadState, revise};
    use crate::plan::plan;

    fn service(number: usize) -> ServiceName {
        ServiceName::new("default", &format!("s{number}")).unwrap()
    }

    fn places(parts: &BTreeMap<ServiceName, (Part, u64)>) -> impl Iterator<Item = Place<'_>> {
        parts.iter().map(|(service, (part, last))| Place { service, part: *part, last: *last })
    }

    /// End of a service's turn.
    #[derive(Clone, Copy, Debug)]
    enum End {
        /// It follows within so many seconds.
        Follows(u64),
        /// Its next revision fails at once.
        Fails,
        /// Nothing is heard of it.
        Hangs,
        /// It cannot even begin, and waits again.
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

    fn part() -> impl proptest::strategy::Strategy<Value = (Part, u64)> {
        let part =
            prop_oneof![Just(Part::None), Just(Part::Waiting), (0_u64..40).prop_map(|until| Part::Rolling { until }),];
        (part, 0_u64..5)
    }

    /// A service that serves, and whose runtime then changed at 100 s.
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

        /// What runs, where the revision of this number fails.
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

        fn part(&self, failing: u32, now: u64) -> Part {
            super::part(&self.validated, &self.history, &self.snapshot(failing), now)
        }
    }

    #[test]
    fn a_service_waits_for_its_turn_and_then_counts_until_it_serves() {
        assert_eq!(Case::new(&[], Follow::Later).part(0, 100), Part::Waiting);
        let mut given = Case::new(&[], Follow::Now);
        assert_eq!(given.part(0, 100), Part::Rolling { until: 100 + SLOW });
        assert_eq!(given.part(2, 100), Part::Rolling { until: 100 + FAILED });
        assert_eq!(given.part(2, 100 + FAILED), Part::None);
        given.history.rollout.stable = given.history.rollout.candidate.take().map(|c| c.revision);
        given.history.records[1].load = LoadState::Now;
        assert_eq!(given.part(0, 101), Part::None);
    }

    #[test]
    fn a_stopped_service_needs_no_turn() {
        let stop = [("serving.kserve.io/stop", "true")];
        let stopped = Case::new(&stop, Follow::Later);
        assert!(!stopped.history.is_behind(&stopped.validated));
        assert_eq!(stopped.part(0, 100), Part::None);
    }

    #[test]
    fn without_auto_update_what_works_keeps_its_runtime_and_what_fails_does_not() {
        let disabled = [("serving.kserve.io/disable-auto-update", "true")];
        let case = Case::new(&disabled, Follow::Now);
        assert_eq!(case.history.records.len(), 1);
        assert_eq!(case.part(0, 100), Part::None);
        assert_eq!(case.part(1, 100), Part::Waiting);
        let of = |failing| change(&case.validated, &case.history, &case.snapshot(failing), Follow::Now);
        assert_eq!((of(0), of(1)), (RuntimeChange::Hold, RuntimeChange::Follow));
    }

    proptest! {
        #[test]
        fn turns_are_of_those_that_wait_and_fill_the_places(
            parts in proptest::collection::vec(part(), 0..20),
            now in 0_u64..40,
        ) {
            let parts: BTreeMap<_, _> = parts.into_iter().enumerate().map(|(i, part)| (service(i), part)).collect();
            let turns = next(places(&parts), now);
            let count = |is_it: &dyn Fn(Part) -> bool| parts.values().filter(|(part, _)| is_it(*part)).count();
            let rolling = count(&|part| part.is_rolling(now));
            let waiting = count(&|part| part == Part::Waiting);
            prop_assert_eq!(turns.len(), waiting.min(AT_ONCE.saturating_sub(rolling)));
            prop_assert!(turns.iter().all(|service| parts[service].0 == Part::Waiting));
            let last = turns.iter().map(|service| parts[service].1).max().unwrap_or(0);
            let passed_over = parts.iter().filter(|(name, (part, _))| *part == Part::Waiting && !turns.contains(name));
            prop_assert!(passed_over.map(|(_, (_, before))| *before).all(|before| before >= last));
        }

        #[test]
        fn every_service_has_its_turn_whatever_becomes_of_others(ends in proptest::collection::vec(end(), 1..24)) {
            let services: Vec<_> = (0..ends.len()).map(service).collect();
            let mut parts: BTreeMap<_, _> = services.iter().map(|name| (name.clone(), (Part::Waiting, 0))).collect();
            let mut begun: BTreeMap<ServiceName, u64> = BTreeMap::new();
            for now in (1..(SLOW + 20) * (ends.len() as u64)).step_by(10) {
                for turn in next(places(&parts), now) {
                    begun.entry(turn.clone()).or_insert(now);
                    parts.insert(turn, (Part::begun(now), now));
                }
                let rolling = parts.values().filter(|(part, _)| part.is_rolling(now)).count();
                prop_assert!(rolling <= AT_ONCE);
                for (service, end) in services.iter().zip(&ends) {
                    let (part, last) = parts[service];
                    let next = match (end, part) {
                        (End::Follows(time), Part::Rolling { .. }) if now >= last + time => Part::None,
                        (End::Fails, Part::Rolling { .. }) => Part::Rolling { until: last + FAILED },
                        (End::Refused, Part::Rolling { until }) if now >= until => Part::Waiting,
                        (_, part) => part,
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
