//! Properties that plans keep through any sequence of edits and failures.

use std::sync::Arc;

use proptest::prelude::*;

use super::world::{World, policy, split};
use super::{Plan, bounds};
use crate::fixtures::{CANARY, model, validated};
use crate::manifest::validate::Validated;
use crate::rollout::Stage;

/// Edit, failure, or passing time.
#[derive(Clone, Debug)]
enum Change {
    Edit { path: u8, percent: Option<u8>, min: u8, canary: Option<u8> },
    Bound { min: u8, max: u8 },
    Start(u8),
    Fail(u8),
    ScaleDown,
    Elapse(u16),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..4_u8, prop::option::of(0..=100_u8), 0..3_u8, prop::option::of(0..=100_u8))
            .prop_map(|(path, percent, min, canary)| Change::Edit { path, percent, min, canary }),
        (0..4_u8, 4..9_u8).prop_map(|(min, max)| Change::Bound { min, max }),
        (1..6_u8).prop_map(Change::Start),
        (1..6_u8).prop_map(Change::Fail),
        Just(Change::ScaleDown),
        (0..900_u16).prop_map(Change::Elapse),
    ]
}

struct Manifest {
    path: u8,
    percent: Option<u8>,
    bounds: (u8, u8),
    canary: Option<u8>,
}

impl Manifest {
    fn validated(&self) -> Validated {
        let mut fields = vec![format!("minReplicas: {}", self.bounds.0), format!("maxReplicas: {}", self.bounds.1)];
        fields.extend(self.percent.map(|percent| format!("canaryTrafficPercent: {percent}")));
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        let canary = self.canary.map(|percent| CANARY.replace("30", &percent.to_string()));
        validated(&[], &format!("{}{}", model(&self.path.to_string(), &fields), canary.unwrap_or_default()))
    }

    fn edit(&mut self, change: &Change) {
        match *change {
            Change::Edit { path, percent, min, canary } => {
                (self.path, self.percent, self.canary) = (path, percent, canary);
                self.bounds.0 = min;
            }
            Change::Bound { min, max } => self.bounds = (min, max),
            Change::Start(_) | Change::Fail(_) | Change::ScaleDown | Change::Elapse(_) => {}
        }
    }
}

impl World {
    fn change(&mut self, change: &Change, last: &Plan) {
        match *change {
            Change::Start(number) => self.start(|other| other == u32::from(number)),
            Change::Fail(number) => {
                let failing = self.revisions.iter_mut().find(|(n, _)| n.number() == u32::from(number));
                if let Some((_, revision)) = failing {
                    Arc::make_mut(revision).replicas.clear();
                }
            }
            Change::ScaleDown => {
                self.scale_down(last);
            }
            Change::Elapse(seconds) => self.now += u64::from(seconds),
            Change::Edit { .. } | Change::Bound { .. } => {}
        }
    }
}

/// Reconciliation: the world before and after, and the plan before and after.
struct Reconciliation<'a> {
    before: &'a World,
    last: &'a Plan,
    after: &'a World,
    validated: &'a Validated,
    plan: &'a Plan,
}

impl Reconciliation<'_> {
    fn check(&self, change: &Change) {
        self.shares_are_whole();
        self.bounds_fit();
        self.nothing_is_held_for_ever();
        self.a_stable_revision_is_replaced_by_a_ready_one();
        self.a_ready_revision_keeps_running();
        match change {
            Change::Bound { .. } => {
                let records = |world: &World| world.history.records.len();
                assert_eq!(records(self.after), records(self.before));
            }
            Change::Edit { .. } | Change::Start(_) | Change::Fail(_) | Change::ScaleDown | Change::Elapse(_) => {}
        }
    }

    /// Weights add up to 100, and only loaded revisions and the stable one have traffic.
    fn shares_are_whole(&self) {
        let split = split(self.plan);
        assert_eq!(split.iter().map(|(_, weight)| weight).sum::<u32>(), 100, "{split:?}");
        let history = &self.after.history;
        for share in self.plan.shares.iter().filter(|share| share.percent > 0) {
            let is_stable = history.rollout.stable.as_ref() == Some(&share.revision);
            assert!(is_stable || history.has_loaded(&share.revision));
        }
    }

    /// Workloads and bounds name the same revisions, and a revision that has not loaded keeps a replica.
    fn bounds_fit(&self) {
        let workloads = self.plan.desired.workloads();
        let bounds = bounds::bounds(self.validated, &self.after.history, self.after.now);
        assert!(bounds.keys().eq(workloads.iter().map(|w| &w.revision)));
        for workload in workloads {
            let policy = workload.scaling.as_ref().unwrap();
            let max = policy.max;
            assert!(max.is_none_or(|max| policy.min <= max), "{policy:?}");
        }
        if let Some(candidate) = &self.after.history.rollout.candidate {
            let policy = policy(self.plan, &candidate.revision);
            assert!(candidate.stage != Stage::Waiting || policy.min >= 1);
        }
    }

    /// After every window and deadline, a revision has its declared minimum, or the one replica that shows whether it
    /// loads.
    fn nothing_is_held_for_ever(&self) {
        let history = &self.after.history;
        let much_later = self.after.now + 100_000;
        let rollout = &history.rollout;
        for (revision, scaling) in bounds::bounds(self.validated, history, much_later) {
            let canaries = self.validated.canaries.iter().zip(&history.canaries);
            let of_canaries = canaries.filter(|(_, of)| of.revision == revision);
            let declared = of_canaries.map(|(canary, _)| canary.variant.scaling.policy.min).chain([self
                .validated
                .predictor
                .scaling
                .policy
                .min]);
            let least = declared.max().unwrap_or(0);
            let shows_loading = u32::from(!history.has_loaded(&revision));
            let waits = rollout
                .candidate
                .as_ref()
                .is_some_and(|candidate| candidate.revision == revision && candidate.stage == Stage::Waiting);
            let most = least.max(shows_loading).max(u32::from(waits));
            assert!(scaling.policy.min <= most, "{revision}: {scaling:?}");
        }
    }

    fn a_stable_revision_is_replaced_by_a_ready_one(&self) {
        let stable = |world: &World| world.history.rollout.stable.clone();
        let old = stable(self.before).filter(|old| self.before.history.has_loaded(old));
        if let Some(old) = old {
            let new = stable(self.after).unwrap();
            let ready = self.before.ready();
            assert!(old == new || ready.contains(&new.number()), "{old} {new}");
        }
    }

    /// If a revision was ready and had traffic, canaries aside, a ready one still runs, unless the stable one is scaled
    /// to zero.
    fn a_ready_revision_keeps_running(&self) {
        let rollout = &self.before.history.rollout;
        let stable = rollout.stable.as_ref().and_then(|s| self.before.revisions.get(s));
        let shares = self.last.shares.iter().filter(|share| share.percent > 0);
        let served: Vec<_> = shares
            .map(|share| &share.revision)
            .filter(|name| rollout.revisions().any(|other| other == *name))
            .filter(|name| self.before.ready().contains(&name.number()))
            .collect();
        let ready = self.before.ready();
        let mut workloads = self.plan.desired.workloads().iter();
        let goes_on = workloads.any(|workload| ready.contains(&workload.revision.number()));
        let sleeps = stable.is_some_and(|stable| stable.is_at_zero());
        assert!(served.is_empty() || goes_on || sleeps, "{served:?} are gone");
    }
}

proptest! {
    #[test]
    fn plans_keep_their_laws(all in prop::collection::vec(change(), 1..30)) {
        let mut world = World::default();
        let mut manifest = Manifest { path: 0, percent: None, bounds: (1, 4), canary: None };
        let (mut last, _) = world.reconcile(&manifest.validated());
        for change in &all {
            manifest.edit(change);
            world.change(change, &last);
            let before = world.clone();
            let validated = manifest.validated();
            let (planned, _) = world.reconcile(&validated);
            let reconcile = Reconciliation { before: &before, last: &last, after: &world, validated: &validated, plan: &planned };
            reconcile.check(change);
            last = planned;
        }
    }
}
