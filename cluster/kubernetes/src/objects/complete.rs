//! Completes a revision's pod with what it needs on this cluster. The additions are not part of the revision's identity
//! and are made once, when the revision is stored. Fields that the pod sets itself are kept.

mod default_fields;
mod device;
mod graceful_stop;
mod inference_service;
mod inherited;
mod pod_security;
mod probes;
pub(crate) mod request_tls;
mod resources;
mod shared_memory;
mod storage;
mod tolerations;
mod weir_runtime;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::ClusterError;
use weir_crds::StorageContainer;

use super::labels;
use crate::Options;
use crate::stored::StoredRevision;
pub(crate) use device::{gpus, has_gpu};
pub(crate) use pod_security::Enforced;
pub use storage::check_storage_uri;
pub(crate) use storage::{
    CREDENTIALS, DISK_REQUEST, ModelAccount, PROGRESS_PORT, PROGRESS_VARIABLE, is_fetched, without_image_volumes,
};

/// Facts about the namespace, the service and the cluster that shape a revision's pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodContext {
    /// Pod Security Standard that the namespace enforces.
    pub(crate) enforced: Enforced,
    /// Metadata of the InferenceService.
    pub(crate) service: ObjectMeta,
    /// ServiceAccount of the pods; empty if no model is fetched.
    pub(crate) account: ModelAccount,
    /// Containers of the cluster that fetch models in place of Weir's own.
    pub(crate) storage_containers: Vec<StorageContainer>,
}

/// Returns the pod template of a revision's Deployment.
///
/// # Errors
/// [`ClusterError::Refused`] when the model's storage is not supported here.
pub(crate) fn complete(
    stored: &StoredRevision,
    options: &Options,
    context: &PodContext,
) -> Result<PodTemplateSpec, ClusterError> {
    let mut template = stored.template.read();
    let service = stored.revision.service();
    let metadata = template.metadata.get_or_insert_default();
    inference_service::label(metadata, service);
    inherited::add(metadata, &context.service);
    let own = labels(&stored.revision);
    metadata.labels.get_or_insert_default().extend(own);
    let annotations = metadata.annotations.clone().unwrap_or_default();
    let Some(pod) = template.spec.as_mut() else {
        return Ok(template);
    };
    let gpus = device::Gpus::of(&annotations);
    inference_service::name_in(pod, service);
    device::limit(pod);
    resources::request(pod);
    shared_memory::mount(pod, &gpus);
    tolerations::add(pod, &gpus);
    request_tls::provide(pod, options.certificates.as_ref());
    probes::complete(pod, stored.ready_call);
    graceful_stop::pause(pod);
    let fetch = storage::FetchContext {
        options,
        annotations: &annotations,
        account: &context.account,
        containers: &context.storage_containers,
    };
    storage::provide(stored, pod, &fetch)?;
    default_fields::set(pod, options);
    pod_security::restrict(pod, context.enforced);
    Ok(template)
}

/// Returns the containers of a pod, init containers first.
fn all_containers(pod: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    let first = pod.init_containers.iter_mut().flatten();
    first.chain(&mut pod.containers)
}
