//! Builds the `/status` page from the state of the platform's components.

use std::sync::Arc;

use tokio::sync::watch;
use weir_autoscaler::Decisions;
use weir_cluster::{
    Activity, Destination, Histogram, LatestReports, Revision, RevisionName, Route, ServiceName, Snapshot,
};
use weir_controller::Declaration;
use weir_controller::files::Statuses;
use weir_crds::inference_service::{Condition, ConditionStatus};

use super::notes;
use crate::commands::status_table::{RevisionRow, ServiceRow, StatusTable};

/// Receivers of the latest state of each component.
pub(super) struct StatusSources {
    pub(super) declaration: watch::Receiver<Arc<Declaration>>,
    pub(super) statuses: watch::Receiver<Arc<Statuses>>,
    pub(super) snapshots: watch::Receiver<Arc<Snapshot>>,
    pub(super) reports: watch::Receiver<Arc<LatestReports>>,
    pub(super) decisions: watch::Receiver<Arc<Decisions>>,
    /// Base URL of the services, for clients on this machine.
    pub(super) base_url: String,
}

impl StatusSources {
    /// Returns the status of all services now.
    pub(super) fn table(&self) -> StatusTable {
        let declaration = self.declaration.borrow().clone();
        StatusTable {
            services: wholes(&declaration).map(|service| self.service(service, &declaration)).collect(),
            problems: declaration.problems.clone(),
        }
    }

    fn service(&self, service: &ServiceName, declaration: &Declaration) -> ServiceRow {
        let statuses = self.statuses.borrow().clone();
        let status = statuses.get(service).map(|status| &**status);
        let ready = status.and_then(|status| status.condition(Condition::READY));
        let snapshot = self.snapshots.borrow().clone();
        let components: Vec<_> = declaration.components(service).map(|declared| &declared.service.name).collect();
        let revisions = || components.iter().flat_map(|component| snapshot.revisions_of(component));
        let route = |revision: &Revision| snapshot.routes.of(revision.name.service()).map(|route| &**route);
        ServiceRow {
            namespace: service.namespace().to_owned(),
            name: service.name().to_owned(),
            ready: ready.map_or("Unknown", status_of).to_owned(),
            reason: ready.and_then(|ready| ready.reason.clone()),
            message: ready.and_then(|ready| ready.message.clone()),
            url: format!("{}{}", self.base_url, service.path_prefix()),
            host_url: status.and_then(|status| status.url.clone()),
            notes: notes::of(service, status, revisions()),
            revisions: revisions().map(|revision| self.revision(revision, route(revision))).collect(),
        }
    }

    fn revision(&self, revision: &Revision, route: Option<&Route>) -> RevisionRow {
        let activity = activity(&self.reports.borrow(), &revision.name);
        let decisions = self.decisions.borrow().clone();
        let decision = decisions.get(&revision.name);
        let failure = revision.failure.as_ref();
        RevisionRow {
            name: revision.name.as_str().to_owned(),
            traffic_percent: route.map_or(0.0, |route| percent(route, &revision.name)),
            tags: route.map_or(Vec::new(), |route| tags(route, &revision.name)),
            ready: revision.ready().count(),
            wanted: revision.desired,
            queued: activity.queued,
            in_flight: activity.in_flight,
            arrivals: activity.arrivals,
            failed: activity.failed,
            refused: activity.refused,
            queue_delay_p50_ms: milliseconds(&activity.queue_delay, 0.5),
            queue_delay_p99_ms: milliseconds(&activity.queue_delay, 0.99),
            restarts: notes::restarts(revision),
            failure: failure.map(|f| format!("{}: {}", f.reason.label(), f.message)),
            last_exit: notes::last_exit(revision),
            scaled: decision.map(ToString::to_string),
            cold_start_ms: decision.map(|decision| decision.terms.cold_start.as_secs_f64() * 1e3),
            starts_ms: decision.map_or(Vec::new(), |decision| {
                let starts = decision.starts.iter();
                starts.map(|start| start.as_secs_f64() * 1e3).collect()
            }),
            attainment: decision.and_then(|decision| decision.account.attainment()),
            idleness: decision.and_then(|decision| decision.account.idleness()),
        }
    }
}

/// Returns the names of the declared InferenceServices.
fn wholes(declaration: &Declaration) -> impl Iterator<Item = &ServiceName> {
    declaration.services.keys().filter(|name| **name == name.whole())
}

fn status_of(condition: &Condition) -> &'static str {
    match condition.status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    }
}

fn activity(reports: &LatestReports, name: &RevisionName) -> Activity {
    let mut sum = Activity::default();
    let all = reports.values();
    for activity in all.filter_map(|report| report.revisions.get(name)) {
        sum.merge(activity);
    }
    sum
}

/// Returns the revision's share of the requests that name no revision, in percent.
pub(super) fn percent(route: &Route, revision: &RevisionName) -> f64 {
    match &route.destination {
        Destination::Nowhere(_) => 0.0,
        Destination::Split(split) => {
            let mut targets = split.targets().iter();
            let target = targets.find(|target| target.revision == *revision);
            let weight = target.map_or(0, |target| target.weight);
            f64::from(weight) * 100.0 / f64::from(split.total())
        }
    }
}

fn tags(route: &Route, revision: &RevisionName) -> Vec<String> {
    let ours = route.tags.iter().filter(|t| t.revision == *revision);
    ours.map(|tagged| tagged.tag.as_str().to_owned()).collect()
}

fn milliseconds(delays: &Histogram, share: f64) -> Option<f64> {
    let delay = delays.quantile(share)?;
    Some(delay.as_secs_f64() * 1e3)
}
