//! The Deployment of a revision.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use weir_cluster::{ClusterError, Workload};

use super::{labels, pod_selector, storage};

/// A revision never changes, so there is no former template to go back to.
const FORMER_TEMPLATES: i32 = 0;

/// The Deployment of a revision, without a number of replicas, which is not the controller's.
///
/// # Errors
/// [`ClusterError::Refused`] when the workload's storage cannot be had here.
pub(crate) fn deployment(workload: &Workload) -> Result<Deployment, ClusterError> {
    let revision = &workload.revision;
    Ok(Deployment {
        metadata: ObjectMeta {
            name: Some(revision.as_str().to_owned()),
            namespace: Some(revision.service().namespace().to_owned()),
            labels: Some(labels(revision)),
            annotations: Some([identity(workload)].into()),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            revision_history_limit: Some(FORMER_TEMPLATES),
            selector: LabelSelector {
                match_labels: Some(pod_selector(revision)),
                ..LabelSelector::default()
            },
            template: template(workload)?,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    })
}

/// Annotation with the identity, so that what is stored can be told from what is asked for.
pub(super) const IDENTITY: &str = "weir.dev/identity";

fn identity(workload: &Workload) -> (String, String) {
    (IDENTITY.to_owned(), workload.identity().as_str().to_owned())
}

fn template(workload: &Workload) -> Result<PodTemplateSpec, ClusterError> {
    let mut template = (*workload.template).clone();
    let metadata = template.metadata.get_or_insert_default();
    metadata
        .labels
        .get_or_insert_default()
        .extend(labels(&workload.revision));
    storage::mount(workload, &mut template)?;
    Ok(template)
}
