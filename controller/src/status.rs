//! What is known of a service, for its object: KServe's status, told from what was applied and what
//! runs.

mod conditions;
mod model;
#[cfg(test)]
mod tests;
mod traffic;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use weir_cluster::{Applied, Conflict, Gateway, LatestReports, Revision, RevisionName, Snapshot};
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::Address;

use crate::validate::{Run, Validated, ValidationErrors};
use crate::{History, Plan, Scope, Service};

/// The one mode that Weir has, under KServe's name.
const MODE: &str = "Standard";

/// All that a status is told from.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The service as it was declared.
    pub declared: &'a Service,
    /// What that means. Where it means nothing, what was planned before still runs.
    pub valid: Result<&'a Validated, &'a ValidationErrors>,
    /// What is remembered of it.
    pub history: &'a History,
    /// What was last planned, if anything was.
    pub plan: Option<&'a Plan>,
    /// What became of it; or why the cluster refused it, a sentence.
    pub applied: Result<Option<Applied>, &'a str>,
    /// What runs.
    pub snapshot: &'a Snapshot,
    /// What the gateways say.
    pub reports: &'a LatestReports,
    /// The hosts that it claims in vain.
    pub conflicts: &'a [Conflict],
    /// The status before.
    pub before: &'a InferenceServiceStatus,
    /// Seconds since 1970.
    pub now: u64,
}

/// Tells the status. Equal things seen give an equal status, whatever the time: a condition's time only
/// changes when the condition does.
#[must_use]
pub fn status(seen: &Seen<'_>) -> InferenceServiceStatus {
    let mut status = InferenceServiceStatus {
        observed_generation: seen.declared.object.metadata.generation,
        conditions: conditions::conditions(seen),
        annotations: seen.before.annotations.clone(),
        deployment_mode: Some(MODE.to_owned()),
        model_status: Some(model::status(seen)),
        ..InferenceServiceStatus::default()
    };
    match seen.valid {
        Ok(valid) => describe(&mut status, valid, seen),
        Err(_) => keep_description(&mut status, seen.before),
    }
    status
}

/// Where it is reached and what runs it.
fn describe(status: &mut InferenceServiceStatus, valid: &Validated, seen: &Seen<'_>) {
    let outside = valid.exposure.outside.as_ref();
    status.url = outside.map(|host| format!("http://{host}"));
    let service = &valid.service;
    let (name, namespace) = (service.name(), service.namespace());
    status.address = Some(Address {
        url: Some(format!("http://{name}.{namespace}.svc.cluster.local")),
    });
    match &valid.predictor.runtime {
        Some((name, Scope::Namespace(_))) => status.serving_runtime_name = Some(name.clone()),
        Some((name, Scope::Cluster)) => status.cluster_serving_runtime_name = Some(name.clone()),
        None => {}
    }
    if valid.run == Run::Serving {
        let predictor = traffic::predictor(valid, seen);
        let components = &mut status.components;
        components.insert("predictor".to_owned(), Box::new(predictor));
        status.canary_statuses = traffic::canaries(valid, seen);
    }
}

/// What cannot be served changes nothing of what is.
fn keep_description(status: &mut InferenceServiceStatus, before: &InferenceServiceStatus) {
    status.url.clone_from(&before.url);
    status.address.clone_from(&before.address);
    status.components.clone_from(&before.components);
    status.canary_statuses.clone_from(&before.canary_statuses);
    let runtime = &before.cluster_serving_runtime_name;
    status.cluster_serving_runtime_name.clone_from(runtime);
    status
        .serving_runtime_name
        .clone_from(&before.serving_runtime_name);
}

/// How a revision is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// It takes requests.
    Ready,
    /// It has loaded, and sleeps at zero.
    Standby,
    /// It comes up.
    Loading,
    /// It does not come up, for this reason: kind and sentence.
    Failed(&'static str, String),
}

impl Seen<'_> {
    fn revision(&self, name: &RevisionName) -> Option<&Revision> {
        self.snapshot.revision(name).map(|revision| &**revision)
    }

    fn state(&self, name: &RevisionName) -> State {
        let Some(revision) = self.revision(name) else {
            return State::Loading;
        };
        if revision.ready().next().is_some() {
            return State::Ready;
        }
        // A failure from before it fell asleep is history: the next request tries again.
        if revision.is_at_zero() && self.history.has_loaded(name) {
            return State::Standby;
        }
        match &revision.failure {
            Some(failure) => State::Failed(failure.reason.label(), failure.message.to_string()),
            None => State::Loading,
        }
    }
}

/// Whether every gateway has what was applied. The sentence says who is missing.
pub(crate) fn route_is_live(
    applied: Option<Applied>,
    gateways: &[Gateway],
    reports: &LatestReports,
) -> Result<(), String> {
    let Some(applied) = applied else {
        return Err("the route is not applied yet".to_owned());
    };
    if gateways.is_empty() {
        return Err("no gateway is up".to_owned());
    }
    let lacks = gateways.iter().find(|gateway| {
        let report = reports.get(&gateway.name);
        report.is_none_or(|report| report.routes < applied.routes)
    });
    lacks.map_or(Ok(()), |gateway| {
        Err(format!(
            "the gateway {} does not have the route yet",
            gateway.name
        ))
    })
}

fn time(seconds: u64) -> Option<Time> {
    let seconds = i64::try_from(seconds).ok()?;
    Timestamp::from_second(seconds).ok().map(Time)
}
