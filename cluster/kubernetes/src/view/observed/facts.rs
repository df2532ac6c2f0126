//! Facts about a revision or a route from single objects.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use weir_cluster::{Domains, Failure, FailureReason, Host, RevisionName, Route};

use crate::error;
use crate::objects::{FAILURES, ROUTE, WORKLOAD, created, gpus, named_revision_of, service_of};
use crate::view::generation;
use crate::view::replica;
use crate::watch::watch_cache::Edit;
use crate::written::{WrittenFailures, WrittenRevision, WrittenRoute};

/// Refused hosts that one log line names at most.
const LISTED: usize = 5;

/// Facts about a revision from its Deployment.
#[derive(Clone, Debug)]
pub(super) struct Scaled {
    pub(super) revision: RevisionName,
    pub(super) replicas: u32,
    /// Resource version of the Deployment that last stated the number.
    pub(super) version: u64,
    /// GPUs of each pod.
    pub(super) gpus: u32,
    /// Reason why the Deployment cannot create pods; None if it can.
    pub(super) failure: Option<Failure>,
    /// True if no further pod became available within the Deployment's progress deadline: Kubernetes' default, ten
    /// minutes.
    pub(super) is_late: bool,
}

/// Content of a Service's annotation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Written {
    Revision(RevisionName, Box<RevisionNotes>),
    Route(Arc<Route>),
}

/// Contents of the annotations of a revision's Service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RevisionNotes {
    pub(super) workload: WrittenRevision,
    pub(super) failures: WrittenFailures,
}

/// Returns the facts from a Deployment, but keeps a known number of replicas that is newer.
pub(super) fn scaled(object: &Deployment, before: Option<&Scaled>) -> Option<Scaled> {
    let spec = object.spec.as_ref()?;
    let replicas = spec.replicas.unwrap_or(1);
    let seen = (generation(object), u32::try_from(replicas).unwrap_or_default());
    let known = before.map(|before| (before.version, before.replicas));
    let (version, replicas) = match known {
        Some(known) if known.0 > seen.0 => known,
        Some(_) | None => seen,
    };
    let status = object.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    let late = conditions.clone().find(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded"));
    let unmade = conditions.find(|c| c.type_ == "ReplicaFailure" && c.status == "True");
    Some(Scaled {
        revision: named_revision_of(object)?,
        replicas,
        version,
        gpus: gpus(&spec.template),
        failure: unmade.map(not_made),
        is_late: late.is_some(),
    })
}

/// Returns the failure of a Deployment whose pods the API server refuses to create.
fn not_made(condition: &DeploymentCondition) -> Failure {
    let message = condition.message.as_deref().unwrap_or_default();
    let sentence = format!("its pods cannot be made: {}", error::advice(message));
    let since = condition.last_transition_time.as_ref();
    Failure {
        at: since.and_then(|since| u64::try_from(since.0.as_second()).ok()),
        lacks: replica::room::lacking(message),
        ..Failure::new(FailureReason::NotStarted, sentence)
    }
}

impl Written {
    pub(super) fn route(&self) -> Option<&Arc<Route>> {
        match self {
            Self::Revision(..) => None,
            Self::Route(route) => Some(route),
        }
    }
}

/// Reads the annotations of a Service with Weir's label. Everyone who may edit Services in the namespace can write
/// them. Therefore the Service's own name determines the service or revision, the API server's timestamp determines the
/// age, and only hosts that follow from the name are accepted.
pub(super) fn written(
    object: &Service,
    domains: &Domains,
) -> Result<Option<Written>, Box<dyn std::error::Error + Send + Sync>> {
    let annotations = object.annotations();
    if let (Some(name), Some(text)) = (named_revision_of(object), annotations.get(WORKLOAD)) {
        let workload = serde_json::from_str(text)?;
        // Failures are only shown to users, and anyone who may edit the Service may have changed them, so an invalid
        // annotation is ignored.
        let failures = annotations.get(FAILURES).and_then(|text| serde_json::from_str(text).ok());
        let notes = RevisionNotes { workload, failures: failures.unwrap_or_default() };
        return Ok(Some(Written::Revision(name, Box::new(notes))));
    }
    let (Some(service), Some(text)) = (service_of(object), annotations.get(ROUTE)) else {
        return Ok(None);
    };
    if service.full_name() != object.name_any() {
        let because = format!("the route of {service} is kept in the Service of that name alone");
        return Err(because.into());
    }
    let written: WrittenRoute = serde_json::from_str(text)?;
    let mut route = written.route(&service, created(object))?;
    domains.refuse_foreign_hosts(&mut route);
    Ok(Some(Written::Route(Arc::new(route))))
}

/// Logs once which hosts of a route do not belong to its service.
pub(super) fn warn_of_refused(edit: &Edit<Written>) {
    let route = |written: &Option<Written>| written.as_ref().and_then(Written::route).cloned();
    let Some(after) = route(&edit.after).filter(|route| !route.refused_hosts.is_empty()) else {
        return;
    };
    let before = route(&edit.before);
    if before.is_none_or(|before| before.refused_hosts != after.refused_hosts) {
        let hosts: Vec<_> = after.refused_hosts.iter().take(LISTED).map(Host::to_string).collect();
        tracing::warn!(
            service = %after.service, count = after.refused_hosts.len(), hosts = hosts.join(", "),
            "the Service claims hosts that do not follow from its name; gateways do not route these hosts to it"
        );
    }
}
