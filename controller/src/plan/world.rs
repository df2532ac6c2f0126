//! Simulated cluster with one service, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_cluster::{
    Destination, Failure, FailureReason, Ledger, Phase, Replica, RevisionName, Revisions, Route, ScalingPolicy,
    Snapshot,
};

use super::{Plan, plan};
use crate::history::{History, RuntimeChange, revise};
use crate::manifest::validate::Validated;
use crate::rollout::{Sample, Transition, step};

/// A cluster and a history for tests, without a clock or tasks.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) ledger: Ledger,
    pub(super) revisions: Revisions,
    pub(super) history: History,
    pub(super) now: u64,
    started: u32,
}

impl World {
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            generation: 0,
            routes: self.ledger.routes().clone(),
            revisions: Arc::new(self.revisions.clone()),
            gateways: Arc::new([]),
            drifted: Arc::default(),
        }
    }

    /// Reconciles the service once.
    pub(super) fn reconcile(&mut self, validated: &Validated) -> (Plan, Option<Transition>) {
        let snapshot = self.snapshot();
        let history = self.history.clone().observed(&snapshot);
        let history = revise(validated, &history, RuntimeChange::Follow, self.now).unwrap();
        let mut history = history.observed(&snapshot);
        let evidence = history.evidence(&snapshot, &BTreeMap::<_, Sample>::new());
        let (rollout, moved) = step(&history.rollout, &evidence, self.now);
        history.rollout = rollout;
        let history = history.with_canary_shares(validated, &snapshot, self.now);
        let planned = plan(validated, &history, self.now).unwrap();
        assert_eq!(plan(validated, &history, self.now).unwrap(), planned);
        self.history = history;
        self.ledger.apply(planned.desired.clone()).unwrap();
        self.ledger.refresh(&mut self.revisions);
        (planned, moved)
    }

    /// Makes every desired replica ready, for the revisions with these numbers.
    pub(super) fn start(&mut self, which: impl Fn(u32) -> bool) {
        for (name, revision) in &mut self.revisions {
            if which(name.number()) {
                let revision = Arc::make_mut(revision);
                revision.replicas.truncate(revision.desired as usize);
                while revision.replicas.len() < revision.desired as usize {
                    self.started += 1;
                    revision.replicas.push(replica(self.started));
                }
            }
        }
    }

    /// Makes a revision's replicas ready as far as nodes are free, and reports the others as not placed.
    pub(super) fn place(&mut self, revision: &RevisionName, nodes: usize) {
        let all = self.revisions.values().filter(|other| other.name != *revision);
        let taken: usize = all.map(|other| other.replicas.len()).sum();
        let Some(placed) = self.revisions.get_mut(revision) else {
            return;
        };
        let placed = Arc::make_mut(placed);
        let room = nodes.saturating_sub(taken).min(placed.desired as usize);
        placed.replicas = (1000..).take(room).map(replica).collect();
        let cause = Failure::new(FailureReason::NotStarted, "no node takes it");
        placed.unplaced = (room < placed.desired as usize).then_some(cause);
    }

    /// Ends the replicas of a revision, which then fail to start again.
    pub(super) fn fail(&mut self, number: u32) {
        for (_, revision) in self.revisions.iter_mut().filter(|(name, _)| name.number() == number) {
            let revision = Arc::make_mut(revision);
            revision.replicas.clear();
            let because = "exited with status 1".to_owned();
            revision.failure = Some(Failure::new(FailureReason::CrashLoopBackOff, because));
        }
    }

    /// Scales every revision down to its minimum.
    pub(super) fn scale_down(&mut self, planned: &Plan) {
        for workload in planned.desired.workloads() {
            let policy = workload.scaling.as_ref().unwrap();
            self.ledger.scale(&workload.revision, policy.min).unwrap();
        }
        self.ledger.refresh(&mut self.revisions);
        self.start(|_| true);
    }

    /// Scales every revision up to its minimum, and makes its replicas ready.
    pub(super) fn scale_up(&mut self, planned: &Plan) {
        for workload in planned.desired.workloads() {
            let policy = workload.scaling.as_ref().unwrap();
            let least = self.ledger.replicas(&workload.revision).max(policy.min);
            self.ledger.scale(&workload.revision, least).unwrap();
        }
        self.ledger.refresh(&mut self.revisions);
        self.start(|_| true);
    }

    pub(super) fn ready(&self) -> Vec<u32> {
        let ready = self.revisions.values().filter(|r| r.ready().next().is_some());
        ready.map(|revision| revision.name.number()).collect()
    }
}

fn replica(number: u32) -> Replica {
    Replica::new(format!("r{number}"), Phase::Ready)
}

fn weights(route: Option<&Route>) -> Vec<(u32, u32)> {
    match route.map(|route| &route.destination) {
        Some(Destination::Split(split)) => {
            let targets = split.targets().iter();
            targets.map(|target| (target.revision.number(), target.weight)).collect()
        }
        Some(Destination::Nowhere(_)) | None => Vec::new(),
    }
}

/// Returns the policy that the plan has for a revision.
pub(super) fn policy<'a>(plan: &'a Plan, revision: &RevisionName) -> &'a ScalingPolicy {
    let mut workloads = plan.desired.workloads().iter();
    let workload = workloads.find(|workload| workload.revision == *revision);
    workload.unwrap().scaling.as_ref().unwrap()
}

pub(super) fn split(plan: &Plan) -> Vec<(u32, u32)> {
    weights(plan.desired.route().map(|route| &**route))
}

pub(super) fn tags(plan: &Plan) -> Vec<(String, u32)> {
    let route = plan.desired.route().unwrap();
    let tags = route.tags.iter();
    tags.map(|tagged| (tagged.tag.to_string(), tagged.revision.number())).collect()
}
