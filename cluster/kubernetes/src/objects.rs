//! The objects of a service: what is written, and how it is found again. Pure.

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
use weir_cluster::{ClusterError, ContainerPorts, RevisionName, Route, ServiceName, Workload};

pub use complete::check_storage_uri;
pub(crate) use complete::{Enforced, Place, complete, gpus, has_gpu};
pub(crate) use controller_revision::{KeptRevision, ROLLOUT, controller_revision, kept, rollout, rollout_name};
use deployment::deployment;
pub use owned::revision_of;
pub(crate) use owned::{
    GROUP, OWNER_KIND, check_owner, created, is_inference_service, may_be_of, named_revision_of, selector, service_of,
};

use crate::entry::entry;
use crate::written::{WrittenRevision, WrittenRoute};
use crate::{Options, error};

/// Field manager of what the controller decides.
pub(crate) const CONTROLLER: &str = "weir-controller";
/// Field manager of the number of replicas.
pub(crate) const AUTOSCALER: &str = "weir-autoscaler";

/// Label of all that `apply` writes; an object without it is another's.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] on the objects of Weir.
pub(crate) const WEIR: &str = "weir";
/// Label with the name of the service, KServe's.
pub(crate) const SERVICE: &str = "serving.kserve.io/inferenceservice";
/// Label with the full name of the revision.
pub(crate) const REVISION: &str = "weir.dev/revision";

/// End of the name by which a service's predictor is reached.
pub(crate) const PREDICTOR: &str = "-predictor";

/// Annotation with what a workload has beside its pods.
pub(crate) const WORKLOAD: &str = "weir.dev/workload";
/// Annotation with the route.
pub(crate) const ROUTE: &str = "weir.dev/route";

/// Name of the port for HTTP/1.1, in a revision's Service.
pub(crate) const HTTP: &str = "http";
/// Name of the port for gRPC.
pub(crate) const GRPC: &str = "grpc";

/// The objects of a revision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RevisionObjects {
    /// Its pods, without a number of replicas.
    pub(crate) deployment: Deployment,
    /// Its addresses, and what it has beside its pods.
    pub(crate) service: Service,
}

impl RevisionObjects {
    /// The objects of a workload whose pods are these.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when it holds what JSON cannot.
    pub(crate) fn of(
        workload: &Workload,
        pod: PodTemplateSpec,
        owner: Option<&OwnerReference>,
    ) -> Result<Self, ClusterError> {
        Ok(Self { service: headless(workload, &pod, owner)?, deployment: deployment(workload, pod, owner) })
    }
}

/// Labels of all objects of a revision, and of its pods.
pub(crate) fn labels(revision: &RevisionName) -> BTreeMap<String, String> {
    let mut labels = service_labels(revision.service());
    labels.insert(REVISION.to_owned(), revision.as_str().to_owned());
    labels
}

/// Labels of all objects of a service.
pub(crate) fn service_labels(service: &ServiceName) -> BTreeMap<String, String> {
    let labels = [(MANAGED_BY, WEIR), (SERVICE, service.name())];
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// A Service without an address of its own: its endpoints are the replicas, those included that are not ready yet,
/// for a gateway uses one as soon as it answers.
fn headless(
    workload: &Workload,
    pod: &PodTemplateSpec,
    owner: Option<&OwnerReference>,
) -> Result<Service, ClusterError> {
    let revision = &workload.revision;
    let written = json(revision, &WrittenRevision::of(workload, pod))?;
    Ok(Service {
        metadata: ObjectMeta {
            name: Some(revision.as_str().to_owned()),
            namespace: Some(revision.service().namespace().to_owned()),
            labels: Some(labels(revision)),
            annotations: Some([(WORKLOAD.to_owned(), written)].into()),
            owner_references: owners(owner),
            ..ObjectMeta::default()
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

/// The ports of the container that gets the requests, so that the Service's EndpointSlices name them.
fn ports(pod: &PodTemplateSpec) -> Option<Vec<ServicePort>> {
    let entry = entry(pod.spec.as_ref()?)?;
    let ports = ContainerPorts::of(entry);
    // A Service may not list a number twice, though a container may speak both at one port. Nobody uses these numbers:
    // without an address of its own, a Service passes nothing on.
    let named = [(HTTP, 80, ports.http), (GRPC, 8081, ports.grpc)];
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

/// The Services by which callers inside the cluster reach a service, aliases of the gateway's: under the predictor's
/// name, and under its own, which keeps the route.
pub(crate) fn aliases(
    service: &ServiceName,
    route: &Route,
    options: &Options,
    owner: Option<&OwnerReference>,
) -> Result<[Service; 2], ClusterError> {
    let [mut predictor, mut own] = alias_names(service).map(|name| alias(name, service, options));
    let written = json(service, &WrittenRoute::of(route))?;
    own.metadata.annotations = Some([(ROUTE.to_owned(), written)].into());
    for alias in [&mut predictor, &mut own] {
        alias.metadata.owner_references = owners(owner);
    }
    Ok([predictor, own])
}

/// The names of [`aliases`].
pub(crate) fn alias_names(service: &ServiceName) -> [String; 2] {
    let own = service.name().to_owned();
    [format!("{own}{PREDICTOR}"), own]
}

/// An alias of the gateway's Service.
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

/// Labels by which a revision's pods are found: no more than tell it from others, for they can never change.
pub(crate) fn pod_selector(revision: &RevisionName) -> BTreeMap<String, String> {
    [(REVISION.to_owned(), revision.as_str().to_owned())].into()
}

/// The owners of an object: the InferenceService, if there is one.
fn owners(owner: Option<&OwnerReference>) -> Option<Vec<OwnerReference>> {
    owner.map(|owner| vec![owner.clone()])
}

fn json(subject: &impl ToString, written: &impl serde::Serialize) -> Result<String, ClusterError> {
    serde_json::to_string(written).map_err(|error| error::unwritable(subject, error))
}
