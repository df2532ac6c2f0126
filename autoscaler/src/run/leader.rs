//! The one that decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use weir_cluster::{ClusterError, LatestReports, Revision, RevisionName, ServiceName, Snapshot};

use super::writes::{Writes, Written};
use super::{Autoscaler, Decisions, PERIOD};
use crate::collect::{Births, Counts, Hearing, Starts};
use crate::{Memory, Policies, Policy, Sample, decide};

/// All that is known while this process leads. The next leader learns anew.
pub(super) struct Leader<'a> {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    reports: watch::Receiver<Arc<LatestReports>>,
    policies: watch::Receiver<Arc<Policies>>,
    publish: &'a watch::Sender<Arc<Decisions>>,
    began: Instant,
    hearing: Hearing,
    starts: BTreeMap<ServiceName, Starts>,
    watched: BTreeMap<RevisionName, Watched>,
    /// What was last met.
    met: (Arc<Policies>, Arc<Snapshot>),
    decisions: Decisions,
    writes: Writes,
}

/// What is known of one revision.
#[derive(Default)]
struct Watched {
    memory: Memory,
    counts: Counts,
    births: Births,
}

/// What may happen.
enum Event {
    Tick,
    Reports,
    Snapshot,
    Written(Written),
    /// Nobody tells us anything any more.
    End,
}

impl<'a> Leader<'a> {
    pub(super) fn new(autoscaler: &'a Autoscaler) -> Self {
        Self {
            snapshots: autoscaler.directory.watch(),
            reports: autoscaler.reports.watch(),
            policies: autoscaler.policies.clone(),
            publish: &autoscaler.decisions,
            began: Instant::now(),
            hearing: Hearing::default(),
            starts: BTreeMap::new(),
            watched: BTreeMap::new(),
            met: (Arc::default(), Arc::default()),
            decisions: Decisions::new(),
            writes: Writes::new(autoscaler.scale.clone()),
        }
    }

    /// Runs until what it watches has ended.
    pub(super) async fn run(mut self) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = tokio::select! {
                written = self.writes.next() => Event::Written(written),
                changed = self.reports.changed() => changed.map_or(Event::End, |()| Event::Reports),
                changed = self.snapshots.changed() => {
                    changed.map_or(Event::End, |()| Event::Snapshot)
                }
                _ = ticks.tick() => Event::Tick,
            };
            let now = self.began.elapsed();
            match event {
                Event::Tick => self.decide_all(now),
                Event::Reports => self.wake(now),
                Event::Snapshot => self.observe(now),
                Event::Written(written) => note(&written),
                Event::End => return,
            }
        }
    }

    /// Takes in how far replicas have come; the times of starts are measured here.
    fn observe(&mut self, now: Duration) {
        let snapshot = self.snapshots.borrow_and_update().clone();
        let policies = self.policies.borrow().clone();
        let met = (policies.clone(), snapshot.clone());
        let (before, last) = std::mem::replace(&mut self.met, met);
        let changed: Vec<_> = match Arc::ptr_eq(&policies, &before) {
            true => snapshot.changed(&last).collect(),
            false => policies.keys().collect(),
        };
        let has_gone = |name: &&RevisionName| snapshot.revision(name).is_none();
        if !Arc::ptr_eq(&policies, &before) || changed.iter().any(has_gone) {
            self.forget_others(&policies, &snapshot);
        }
        for name in changed
            .into_iter()
            .filter(|name| policies.contains_key(*name))
        {
            if let Some(revision) = snapshot.revision(name) {
                self.meet(revision, now);
            }
        }
    }

    /// Drops what is known of revisions that have gone or are not ours any more.
    fn forget_others(&mut self, policies: &Policies, snapshot: &Snapshot) {
        let is_ours =
            |name: &RevisionName| policies.contains_key(name) && snapshot.revision(name).is_some();
        self.watched.retain(|name, _| is_ours(name));
        self.decisions.retain(|name, _| is_ours(name));
        let services: BTreeSet<_> = policies.keys().map(RevisionName::service).collect();
        self.starts.retain(|service, _| services.contains(service));
    }

    fn meet(&mut self, revision: &Revision, now: Duration) {
        let service = revision.name.service();
        if !self.watched.contains_key(&revision.name) {
            let watched = self.newcomer(service);
            self.watched.insert(revision.name.clone(), watched);
        }
        let starts = self.starts.entry(service.clone()).or_default();
        if let Some(watched) = self.watched.get_mut(&revision.name) {
            watched.births.observe(revision, starts, now);
        }
    }

    /// A new revision is taken to do what the last of its service did, until it is measured.
    fn newcomer(&self, service: &ServiceName) -> Watched {
        let mut before = self.watched.range(RevisionName::all_of(service));
        let last = before.next_back();
        let memory = last.map(|(_, watched)| watched.memory.successor());
        Watched {
            memory: memory.unwrap_or_default(),
            ..Watched::default()
        }
    }

    fn hear(&mut self, now: Duration) {
        let reports = self.reports.borrow_and_update().clone();
        self.hearing.hear(&reports, now);
    }

    fn decide_all(&mut self, now: Duration) {
        self.hear(now);
        self.observe(now);
        let policies = self.policies.borrow().clone();
        for (name, policy) in policies.iter() {
            self.decide(name, policy, now);
        }
        self.publish();
    }

    /// Decides at once on revisions at zero for which a request waits.
    fn wake(&mut self, now: Duration) {
        self.hear(now);
        let snapshot = self.snapshots.borrow().clone();
        let policies = self.policies.borrow().clone();
        let hearing = &self.hearing;
        let is_called = |name: &RevisionName| {
            let sleeps = snapshot.revision(name).is_some_and(|r| r.wanted == 0);
            sleeps && hearing.is_waited_for(name, now)
        };
        let called = policies.iter().filter(|(name, _)| is_called(name));
        let called: Vec<_> = called.collect();
        for (name, policy) in &called {
            self.decide(name, policy, now);
        }
        if !called.is_empty() {
            self.publish();
        }
    }

    fn publish(&self) {
        let decisions = Arc::new(self.decisions.clone());
        self.publish.send_replace(decisions);
    }

    fn decide(&mut self, name: &RevisionName, policy: &Policy, now: Duration) {
        let snapshot = self.snapshots.borrow().clone();
        let Some(revision) = snapshot.revision(name) else {
            return; // Not applied yet, or gone.
        };
        if !self.watched.contains_key(name) {
            self.meet(revision, now);
        }
        let Some((watched, sample)) = self.sample(&snapshot, revision, now) else {
            return;
        };
        let memory = std::mem::take(&mut watched.memory);
        let (memory, decision) = decide(policy, memory, &sample);
        watched.memory = memory;
        if decision.replicas != revision.wanted && !self.writes.has(name) {
            tracing::info!(revision = %name, from = revision.wanted, to = %decision, "scales");
            self.writes.begin(name.clone(), decision.replicas);
        }
        self.decisions.insert(name.clone(), Arc::new(decision));
    }

    fn sample(
        &mut self,
        snapshot: &Snapshot,
        revision: &Revision,
        now: Duration,
    ) -> Option<(&mut Watched, Sample)> {
        let name = &revision.name;
        let starts = self.starts.get(name.service())?;
        let watched = self.watched.get_mut(name)?;
        let sample = Sample {
            at: now,
            sight: self.hearing.sight(&snapshot.gateways, now),
            load: watched.counts.take(name, self.hearing.fresh(now)),
            fleet: watched.births.fleet(revision, starts, now),
        };
        Some((watched, sample))
    }
}

fn note(written: &Written) {
    let revision = &written.revision;
    match &written.result {
        Ok(()) => {}
        // It has gone in between.
        Err(ClusterError::UnknownRevision { .. }) => tracing::debug!(%revision, "gone"),
        Err(
            error @ (ClusterError::Unavailable { .. }
            | ClusterError::Name { .. }
            | ClusterError::Refused { .. }),
        ) => tracing::warn!(%revision, %error, "not scaled; tried again"),
    }
}
