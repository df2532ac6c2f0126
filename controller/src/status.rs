//! Status of a service in KServe's form, computed from what was applied and what runs.

mod components;
mod conditions;
mod model;
#[cfg(test)]
mod reasons;
mod room;
mod scaled_by;
mod shared_gpus;
#[cfg(test)]
mod tests;
mod traffic;
mod untrusted;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use weir_cluster::{
    Applied, Conflict, FailureReason, Gateway, Host, LatestReports, Revision, RevisionName, Snapshot,
    UntrustedByRevision,
};
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::Address;

pub(crate) use components::{ComponentStatuses, merge, part, parts};
pub(crate) use conditions::ROLLOUT_COMPLETE;

use crate::history::History;
use crate::manifest::field_error::ValidationErrors;
use crate::manifest::service::Service;
use crate::manifest::validate::{UrlScheme, Validated};
use crate::plan::Plan;
use crate::runtimes::Scope;

/// KServe's name of the deployment mode that matches Weir's.
const MODE: &str = "Standard";

/// Inputs from which a status is computed.
#[derive(Clone, Copy, Debug)]
pub struct StatusInputs<'a> {
    /// Service as its manifest declares it.
    pub declared: &'a Service,
    /// Result of its validation; while it has errors, the last plan keeps running.
    pub validation: Result<&'a Validated, &'a ValidationErrors>,
    /// Errors of the present manifest; None if it has none. If `validation` is valid all the same, they concern pods
    /// that cannot be made now, and the existing pods keep running.
    pub unserved: Option<&'a ValidationErrors>,
    /// Revisions and rollout of the service.
    pub history: &'a History,
    /// Last plan; None before the first.
    pub plan: Option<&'a Plan>,
    /// Answer of the cluster to the plan; `Ok(None)` before the first answer.
    pub applied: Result<Option<Applied>, &'a Refusal>,
    /// Reason why the plan was not sent or answered, as a clause; None if it was. The plan is sent again.
    pub unavailable: Option<&'a str>,
    /// Present state of the cluster.
    pub snapshot: &'a Snapshot,
    /// Last report of each gateway.
    pub reports: &'a LatestReports,
    /// Replicas that gateways do not trust, according to the reports.
    pub untrusted: &'a UntrustedByRevision,
    /// Hosts of the service that belong to another one.
    pub conflicts: &'a [Conflict],
    /// Status that was last published.
    pub before: &'a InferenceServiceStatus,
    /// Current time in seconds since 1970.
    pub now: u64,
}

/// Reason why the cluster does not run a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The cluster refuses the plan until the manifest changes, or until an obstacle such as another owner's object of
    /// the same name is gone.
    Never(String),
    /// The cluster denies the plan for now, for instance because of a quota. The controller retries it with a growing
    /// delay.
    Now(String),
}

impl Refusal {
    /// Returns the reason that the cluster gave.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Never(message) | Self::Now(message) => message,
        }
    }

    /// Returns the reason for the conditions that the refusal makes false.
    fn reason(&self) -> &'static str {
        match self {
            Self::Never(_) => "Refused",
            Self::Now(_) => "Denied",
        }
    }
}

/// Computes the status. Equal inputs give an equal status at any time, because a condition's time changes only when its
/// status does.
#[must_use]
pub fn status(inputs: &StatusInputs<'_>) -> InferenceServiceStatus {
    let mut status = InferenceServiceStatus {
        observed_generation: inputs.declared.metadata().generation,
        conditions: conditions::conditions(inputs),
        annotations: inputs.before.annotations.clone(),
        label_selector: Some(selector(inputs)),
        deployment_mode: Some(MODE.to_owned()),
        model_status: Some(model::status(inputs)),
        ..InferenceServiceStatus::default()
    };
    match inputs.validation {
        Ok(validated) => describe(&mut status, validated, inputs),
        Err(_) => keep_description(&mut status, inputs.before),
    }
    status
}

/// Returns the selector of the service's pods, of all revisions, by KServe's label.
fn selector(inputs: &StatusInputs<'_>) -> String {
    let name = inputs.declared.metadata().name.as_deref();
    format!("serving.kserve.io/inferenceservice={}", name.unwrap_or_default())
}

/// Fills in URLs, runtime and components.
fn describe(status: &mut InferenceServiceStatus, validated: &Validated, inputs: &StatusInputs<'_>) {
    let outside = validated.exposure.external_host.as_ref();
    status.url = outside.and_then(|host| inputs.url(validated.exposure.scheme, host));
    let service = &validated.service;
    let (name, namespace) = (service.name(), service.namespace());
    let domain = &validated.exposure.cluster_domain;
    status.address = Some(Address { url: Some(format!("http://{name}.{namespace}.svc.{domain}")) });
    match &validated.predictor.runtime {
        Some((name, Scope::Namespace(_))) => status.serving_runtime_name = Some(name.clone()),
        Some((name, Scope::Cluster)) => status.cluster_serving_runtime_name = Some(name.clone()),
        None if !validated.predictor.has_pods => keep_runtime(status, inputs.before),
        None => {}
    }
    if !validated.is_stopped {
        let predictor = traffic::predictor(validated, inputs);
        let components = &mut status.components;
        components.insert("predictor".to_owned(), Box::new(predictor));
        status.canary_statuses = traffic::canaries(validated, inputs);
    }
}

/// Copies URLs, runtime and components from the last status, because an invalid manifest changes nothing that runs.
fn keep_description(status: &mut InferenceServiceStatus, before: &InferenceServiceStatus) {
    status.url.clone_from(&before.url);
    status.address.clone_from(&before.address);
    status.components.clone_from(&before.components);
    status.canary_statuses.clone_from(&before.canary_statuses);
    keep_runtime(status, before);
}

/// Copies the name of the runtime with which the pods were made.
fn keep_runtime(status: &mut InferenceServiceStatus, before: &InferenceServiceStatus) {
    let runtime = &before.cluster_serving_runtime_name;
    status.cluster_serving_runtime_name.clone_from(runtime);
    status.serving_runtime_name.clone_from(&before.serving_runtime_name);
}

/// State of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RevisionState {
    /// The revision has a ready replica.
    Ready,
    /// The revision has loaded before, and is scaled to zero.
    Standby,
    /// The revision is starting its first replica.
    Loading,
    /// The revision has loaded before and is starting a replica again; requests wait for it.
    Restarting,
    /// The revision does not serve, for this reason and with this message.
    Failed(FailureReason, String),
}

impl StatusInputs<'_> {
    /// Returns the URL of a host of this service; None if the host belongs to another service.
    fn url(&self, scheme: UrlScheme, host: &Host) -> Option<String> {
        let is_taken = self.conflicts.iter().any(|conflict| conflict.host == *host);
        (!is_taken).then(|| format!("{scheme}://{host}"))
    }

    fn revision(&self, name: &RevisionName) -> Option<&Revision> {
        self.snapshot.revision(name).map(|revision| &**revision)
    }

    fn state(&self, name: &RevisionName) -> RevisionState {
        let Some(revision) = self.revision(name) else {
            return RevisionState::Loading;
        };
        if revision.ready().next().is_some() {
            return RevisionState::Ready;
        }
        // A failure from before the revision was scaled to zero no longer counts, because the next request starts a
        // replica again.
        if revision.is_at_zero() && self.history.has_loaded(name) {
            return RevisionState::Standby;
        }
        match &revision.failure {
            Some(failure) => RevisionState::Failed(failure.reason, failure.sentence(revision.last_exit())),
            None if self.history.has_loaded(name) => RevisionState::Restarting,
            None => RevisionState::Loading,
        }
    }
}

/// Checks that every gateway has the applied route; the error names a gateway that lacks it.
pub(crate) fn route_is_live(
    applied: Option<Applied>,
    gateways: &[Gateway],
    reports: &LatestReports,
) -> Result<(), String> {
    let Some(applied) = applied else {
        return Err("the route has not been applied yet".to_owned());
    };
    if gateways.is_empty() {
        return Err("no gateway is running".to_owned());
    }
    let lacks = gateways.iter().find(|gateway| {
        let report = reports.get(&gateway.name);
        report.is_none_or(|report| report.routes < applied.routes)
    });
    lacks.map_or(Ok(()), |gateway| Err(format!("gateway {} has not received the route yet", gateway.name)))
}

fn time(seconds: u64) -> Option<Time> {
    let seconds = i64::try_from(seconds).ok()?;
    Timestamp::from_second(seconds).ok().map(Time)
}
