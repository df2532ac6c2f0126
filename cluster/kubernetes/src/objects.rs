//! Objects of a service: how they are built, labelled and found again. Pure.

mod complete;
mod controller_revision;
mod deployment;
mod owned;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodTemplateSpec, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use weir_cluster::{ClusterError, ComponentKind, ContainerPorts, RevisionName, Route, ServiceName, Workload};

pub use complete::check_storage_uri;
pub(crate) use complete::{
    CREDENTIALS, DISK_REQUEST, Enforced, ModelAccount, PROGRESS_PORT, PROGRESS_VARIABLE, PodContext, complete, gpus,
    has_gpu, is_fetched, request_tls, without_image_volumes,
};
pub(crate) use controller_revision::{KeptRevision, ROLLOUT, controller_revision, kept, rollout, rollout_name};
use deployment::deployment;
pub use owned::revision_of;
pub(crate) use owned::{
    GROUP, OWNER_KIND, check_owner, created, is_inference_service, may_be_of, named_revision_of, selector, service_of,
};

use crate::entry::entry;
use crate::written::{WrittenRevision, WrittenRoute};
use crate::{Options, error};

/// Field manager of everything that the controller decides.
pub(crate) const CONTROLLER: &str = "weir-controller";
/// Field manager of the number of replicas.
pub(crate) const AUTOSCALER: &str = "weir-autoscaler";

/// Label of every object that `apply` writes; an object without it is not Weir's.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] on Weir's objects.
pub(crate) const WEIR: &str = "weir";
/// KServe's label with the name of the service.
pub(crate) const SERVICE: &str = "serving.kserve.io/inferenceservice";
/// Label with the full name of the revision.
pub(crate) const REVISION: &str = "weir.dev/revision";

/// KServe's label with the component. Pods have it, and the objects of every component beside the predictor.
pub(crate) const COMPONENT: &str = "component";

/// Annotation with the parts of a workload that are not in its pods.
pub(crate) const WORKLOAD: &str = "weir.dev/workload";
/// Annotation with a revision's failures, for gateways.
pub(crate) const FAILURES: &str = "weir.dev/failures";
/// Annotation with the route.
pub(crate) const ROUTE: &str = "weir.dev/route";

/// Name of the port for HTTP/1.1 in a revision's Service.
pub(crate) const HTTP: &str = "http";
/// Name of the port for gRPC in a revision's Service.
pub(crate) const GRPC: &str = "grpc";

/// Name of the port for metrics in a revision's Service.
pub(crate) const METRICS: &str = "metrics";

/// Kubernetes objects of a revision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RevisionObjects {
    /// Deployment with the revision's pods, without a number of replicas.
    pub(crate) deployment: Deployment,
    /// Headless Service with the pods' addresses and the workload's annotation.
    pub(crate) service: Service,
}

impl RevisionObjects {
    /// Builds the Kubernetes objects of a workload that has this pod template.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when a value cannot be encoded as JSON.
    pub(crate) fn of(
        workload: &Workload,
        pod: PodTemplateSpec,
        owner: Option<&OwnerReference>,
    ) -> Result<Self, ClusterError> {
        Ok(Self { service: headless(workload, &pod, owner)?, deployment: deployment(workload, pod, owner) })
    }
}

/// Returns the labels of a revision's objects and pods.
pub(crate) fn labels(revision: &RevisionName) -> BTreeMap<String, String> {
    let mut labels = service_labels(revision.service());
    labels.insert(REVISION.to_owned(), revision.as_str().to_owned());
    labels
}

/// Returns the metadata of an object of a revision.
fn metadata(revision: &RevisionName, owner: Option<&OwnerReference>) -> ObjectMeta {
    ObjectMeta {
        name: Some(revision.as_str().to_owned()),
        namespace: Some(revision.service().namespace().to_owned()),
        labels: Some(labels(revision)),
        owner_references: owners(owner),
        ..ObjectMeta::default()
    }
}

/// Returns the labels of a service's objects.
pub(crate) fn service_labels(service: &ServiceName) -> BTreeMap<String, String> {
    let component = match service.component() {
        ComponentKind::Predictor => None,
        other @ (ComponentKind::Transformer | ComponentKind::Explainer) => Some((COMPONENT, other.as_str())),
    };
    let labels = [(MANAGED_BY, WEIR), (SERVICE, service.name())].into_iter().chain(component);
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Returns a Service without a cluster IP whose endpoints are the replicas. Not-ready replicas are published too,
/// because a gateway uses a replica as soon as it answers.
fn headless(
    workload: &Workload,
    pod: &PodTemplateSpec,
    owner: Option<&OwnerReference>,
) -> Result<Service, ClusterError> {
    let revision = &workload.revision;
    let written = json(revision, &WrittenRevision::of(workload, pod, request_tls::transport(pod)))?;
    Ok(Service {
        metadata: ObjectMeta {
            annotations: Some([(WORKLOAD.to_owned(), written)].into()),
            ..metadata(revision, owner)
        },
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            ports: ports(pod),
            publish_not_ready_addresses: Some(true),
            selector: Some(pod_selector(revision)),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    })
}

/// Returns the ports of the container that receives the requests, and that of the metrics, so that the EndpointSlices
/// name them.
fn ports(pod: &PodTemplateSpec) -> Option<Vec<ServicePort>> {
    let entry = entry(pod.spec.as_ref()?)?;
    let ports = ContainerPorts::of(entry);
    // A Service may not list a number twice, though a container may serve both protocols on one port. The port numbers
    // are arbitrary: a headless Service forwards nothing, and only the target ports count.
    let annotations = pod.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    let named = [(HTTP, 80, ports.http), (GRPC, 8081, ports.grpc), (METRICS, 8082, ports.metrics(annotations))];
    let port = |(name, number, target): (&str, i32, Option<u16>)| {
        Some(ServicePort {
            name: Some(name.to_owned()),
            port: number,
            target_port: Some(IntOrString::Int(target?.into())),
            app_protocol: (name == GRPC).then(|| "kubernetes.io/h2c".to_owned()),
            ..ServicePort::default()
        })
    };
    Some(named.into_iter().filter_map(port).collect())
}

/// Returns the Services by which in-cluster clients reach a component, aliases of the gateway's Service: one under the
/// component's name and, for a predictor, one under the service's own name. The last one also stores the route.
pub(crate) fn aliases(
    service: &ServiceName,
    route: &Route,
    options: &Options,
    owner: Option<&OwnerReference>,
) -> Result<Vec<Service>, ClusterError> {
    let mut aliases: Vec<_> = alias_names(service).into_iter().map(|name| alias(name, service, options)).collect();
    let written = json(service, &WrittenRoute::of(route))?;
    if let Some(own) = aliases.last_mut() {
        own.metadata.annotations = Some([(ROUTE.to_owned(), written)].into());
    }
    for alias in &mut aliases {
        alias.metadata.owner_references = owners(owner);
    }
    Ok(aliases)
}

/// Returns the names of [`aliases`].
pub(crate) fn alias_names(service: &ServiceName) -> Vec<String> {
    let mut names = vec![service.component_name(), service.full_name()];
    names.dedup();
    names
}

/// Returns an alias (ExternalName) of the gateway's Service.
pub(crate) fn alias(name: String, service: &ServiceName, options: &Options) -> Service {
    let gateway = format!("{}.{}.svc.{}", Options::GATEWAY, options.namespace, options.cluster_domain);
    Service {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(service.namespace().to_owned()),
            labels: Some(service_labels(service)),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some("ExternalName".to_owned()),
            external_name: Some(gateway),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Returns the labels that select a revision's pods: the fewest that identify them, because a selector is immutable.
pub(crate) fn pod_selector(revision: &RevisionName) -> BTreeMap<String, String> {
    [(REVISION.to_owned(), revision.as_str().to_owned())].into()
}

/// Returns the owner references of an object: the InferenceService, if there is one.
fn owners(owner: Option<&OwnerReference>) -> Option<Vec<OwnerReference>> {
    owner.map(|owner| vec![owner.clone()])
}

fn json(subject: &impl ToString, written: &impl serde::Serialize) -> Result<String, ClusterError> {
    serde_json::to_string(written).map_err(|error| error::unwritable(subject, error))
}
