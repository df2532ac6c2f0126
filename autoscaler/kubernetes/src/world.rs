//! Fixture for tests: loads of services without a cluster.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use tokio::sync::watch;
use weir_cluster::{Activity, LatestReports, Report, Revision, RevisionName, ServiceName, Snapshot, Workload};

use crate::Loads;

/// Services of the namespace `team`, and a gateway that reports on them.
pub(crate) struct World {
    pub(crate) loads: Loads,
    reports: watch::Sender<Arc<LatestReports>>,
    _snapshots: watch::Sender<Arc<Snapshot>>,
}

impl World {
    /// Creates the first revisions of these services. The gateway has run for ten seconds and has not reported on them
    /// yet.
    pub(crate) fn new(services: &[&str]) -> Self {
        let revisions = services.iter().map(|name| {
            let name = revision(name);
            (name.clone(), Arc::new(running(name)))
        });
        let snapshot = Snapshot { revisions: Arc::new(revisions.collect()), ..Snapshot::default() };
        let (reports, latest) = watch::channel(Arc::default());
        let (snapshots, seen) = watch::channel(Arc::new(snapshot));
        Self { loads: Loads::follow(latest, seen), reports, _snapshots: snapshots }
    }

    /// Publishes a report of the gateway, ten seconds after its start.
    pub(crate) async fn report(&self, loads: &[(&str, Activity)]) {
        let revisions = loads.iter().cloned().map(|(name, load)| (revision(name), Arc::new(load)));
        let report = Report { started: 1, age_us: 10_000_000, routes: 1, revisions: revisions.collect() };
        let mut seen = self.loads.clone();
        let latest: LatestReports = [("a".into(), Arc::new(report))].into();
        self.reports.send_replace(Arc::new(latest));
        assert!(seen.changed().await);
    }
}

fn revision(service: &str) -> RevisionName {
    let service = ServiceName::new("team", service).unwrap();
    service.revision(1).unwrap()
}

fn running(revision: RevisionName) -> Revision {
    let workload = Workload::new(revision, PodTemplateSpec::default(), 1);
    Revision::new(&workload, 1)
}
