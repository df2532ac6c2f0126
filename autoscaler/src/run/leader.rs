//! The decision loop of the leading process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use weir_cluster::{LatestReports, Revision, RevisionName, ScalingPolicy, ServiceName, Snapshot};

use super::scale_requests::{ScaleOutcome, ScaleRequests, Urgency};
use super::{Autoscaler, PERIOD};
use crate::clock;
use crate::collect::{Baselines, ReportCache, StartTimes, StartTracker};
use crate::metrics::WakeTimes;
use crate::{Account, Decision, Decisions, Memory, Sample, Unplaced, decide};

/// State of the leading process. The next leader starts with none.
pub(super) struct Leader<'a> {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    reports: watch::Receiver<Arc<LatestReports>>,
    publish: &'a watch::Sender<Arc<Decisions>>,
    began: Instant,
    report_cache: ReportCache,
    start_times: BTreeMap<ServiceName, StartTimes>,
    tracked: BTreeMap<RevisionName, Tracked>,
    /// The snapshot up to which `tracked` is current.
    observed: Arc<Snapshot>,
    decisions: Decisions,
    scale_requests: ScaleRequests,
    wake_times: &'a WakeTimes,
}

/// State of one revision between decisions.
#[derive(Default)]
struct Tracked {
    memory: Memory,
    baselines: Baselines,
    starts: StartTracker,
    account: Account,
}

/// An event that the loop waits for.
enum Event {
    Tick,
    Reports,
    Snapshot,
    Scaled(ScaleOutcome),
    /// The cluster's channels have closed.
    End,
}

impl<'a> Leader<'a> {
    pub(super) fn new(autoscaler: &'a Autoscaler) -> Self {
        Self {
            snapshots: autoscaler.directory.watch(),
            reports: autoscaler.reports.watch(),
            publish: &autoscaler.decisions,
            began: clock::now(),
            report_cache: ReportCache::default(),
            start_times: BTreeMap::new(),
            tracked: BTreeMap::new(),
            observed: Arc::default(),
            decisions: Decisions::new(),
            scale_requests: ScaleRequests::new(autoscaler.scale.clone()),
            wake_times: &autoscaler.wake_times,
        }
    }

    /// Runs until the watched channels close.
    pub(super) async fn run(mut self) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = tokio::select! {
                outcome = self.scale_requests.next() => Event::Scaled(outcome),
                changed = self.reports.changed() => changed.map_or(Event::End, |()| Event::Reports),
                changed = self.snapshots.changed() => {
                    changed.map_or(Event::End, |()| Event::Snapshot)
                }
                _ = ticks.tick() => Event::Tick,
            };
            let now = self.began.elapsed();
            match event {
                Event::Tick => self.decide_all(now),
                // A report of a queued request may arrive before the snapshot that shows zero replicas.
                Event::Reports | Event::Snapshot => self.wake(now),
                Event::Scaled(outcome) => outcome.log(),
                Event::End => return,
            }
        }
    }

    /// Updates the tracked revisions from the snapshot, and measures start times.
    fn observe(&mut self, now: Duration) {
        let snapshot = self.snapshots.borrow_and_update().clone();
        let last = std::mem::replace(&mut self.observed, snapshot.clone());
        let changed: Vec<_> = snapshot.changed(&last).collect();
        if changed.iter().any(|name| !is_scaled(&snapshot, name)) {
            self.forget_others(&snapshot);
        }
        for (revision, _) in changed.iter().filter_map(|name| scaled(&snapshot, name)) {
            self.track(revision, now);
        }
    }

    /// Drops the state of revisions that were removed or no longer have a scaling policy.
    fn forget_others(&mut self, snapshot: &Snapshot) {
        self.tracked.retain(|name, _| is_scaled(snapshot, name));
        self.decisions.retain(|name, _| is_scaled(snapshot, name));
        let names = snapshot.revisions.keys();
        let scaled = names.filter(|name| is_scaled(snapshot, name));
        let services: BTreeSet<_> = scaled.map(RevisionName::service).collect();
        self.start_times.retain(|service, _| services.contains(service));
    }

    fn track(&mut self, revision: &Revision, now: Duration) {
        let service = revision.name.service();
        if !self.tracked.contains_key(&revision.name) {
            let tracked = self.newcomer(service);
            self.tracked.insert(revision.name.clone(), tracked);
        }
        let start_times = self.start_times.entry(service.clone()).or_default();
        if let Some(tracked) = self.tracked.get_mut(&revision.name) {
            tracked.starts.observe(revision, start_times, now);
        }
    }

    /// Returns the state of a new revision. It is assumed to perform like the service's previous one until it is
    /// measured.
    fn newcomer(&self, service: &ServiceName) -> Tracked {
        let mut before = self.tracked.range(RevisionName::all_of(service));
        let last = before.next_back();
        let memory = last.map(|(_, tracked)| tracked.memory.successor());
        Tracked { memory: memory.unwrap_or_default(), ..Tracked::default() }
    }

    fn update_reports(&mut self, now: Duration) {
        let reports = self.reports.borrow_and_update().clone();
        self.report_cache.update(&reports, now);
    }

    fn decide_all(&mut self, now: Duration) {
        self.update_reports(now);
        self.observe(now);
        let snapshot = self.observed.clone();
        for name in snapshot.revisions.keys() {
            self.decide(&snapshot, name, now);
        }
        self.publish();
    }

    /// Decides at once for revisions at zero replicas with a queued request.
    fn wake(&mut self, now: Duration) {
        self.update_reports(now);
        self.observe(now);
        let snapshot = self.observed.clone();
        let needs_waking =
            |revision: &Revision| revision.desired == 0 && self.report_cache.has_queued(&revision.name, now);
        let woken: Vec<_> = snapshot
            .revisions
            .values()
            .filter(|revision| revision.scaling.is_some() && needs_waking(revision))
            .collect();
        for revision in &woken {
            self.decide(&snapshot, &revision.name, now);
        }
        if !woken.is_empty() {
            self.publish();
        }
    }

    fn publish(&self) {
        let decisions = Arc::new(self.decisions.clone());
        self.publish.send_replace(decisions);
    }

    fn decide(&mut self, snapshot: &Snapshot, name: &RevisionName, now: Duration) {
        let Some((revision, policy)) = scaled(snapshot, name) else {
            return;
        };
        let Some((tracked, sample)) = self.sample(snapshot, revision, now) else {
            return;
        };
        let mut decision = decide(policy, &mut tracked.memory, &sample);
        tracked.account.add(policy, &sample, revision.gpus);
        decision.account = tracked.account.clone();
        decision.unplaced = Unplaced::of(revision);
        let start_times = self.start_times.get(name.service());
        decision.starts = start_times.map(StartTimes::latest).unwrap_or_default();
        if decision.replicas == revision.desired {
            self.scale_requests.withdraw(name, decision.replicas);
        } else {
            self.ask(revision, &decision);
        }
        self.decisions.insert(name.clone(), Arc::new(decision));
    }

    /// Requests the decided number from the cluster, unless the same request is pending.
    fn ask(&mut self, revision: &Revision, decision: &Decision) {
        let name = &revision.name;
        let waits = match revision.desired {
            0 => self.report_cache.first_queued(name),
            _ => None,
        };
        let urgency = match waits {
            Some(_) => Urgency::WakeUp,
            None => Urgency::Change,
        };
        if self.scale_requests.is_pending(name, decision.replicas, urgency) {
            return;
        }
        tracing::info!(revision = %name, from = revision.desired, to = %decision, "scaling");
        if let Some(came) = waits {
            let took = self.began.elapsed().saturating_sub(came);
            self.wake_times.add(took);
        }
        self.scale_requests.request(name, decision.replicas, urgency);
    }

    fn sample(&mut self, snapshot: &Snapshot, revision: &Revision, now: Duration) -> Option<(&mut Tracked, Sample)> {
        let name = &revision.name;
        let start_times = self.start_times.get(name.service())?;
        let tracked = self.tracked.get_mut(name)?;
        let sample = Sample {
            at: now,
            coverage: self.report_cache.coverage(&snapshot.gateways, now),
            load: tracked.baselines.advance(name, self.report_cache.fresh(now)),
            replicas: tracked.starts.replicas(revision, start_times, now),
        };
        Some((tracked, sample))
    }
}

/// Returns the revision of this name and its policy, if the autoscaler scales it.
fn scaled<'a>(snapshot: &'a Snapshot, name: &RevisionName) -> Option<(&'a Revision, &'a ScalingPolicy)> {
    let revision = snapshot.revision(name)?;
    Some((revision, revision.scaling.as_deref()?))
}

fn is_scaled(snapshot: &Snapshot, name: &RevisionName) -> bool {
    scaled(snapshot, name).is_some()
}
