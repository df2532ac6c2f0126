//! The Deployment of a revision.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use weir_cluster::Workload;

use super::{metadata, pod_selector};

/// Number of old ReplicaSets to keep: none, because a revision never changes and is never rolled back.
const FORMER_TEMPLATES: i32 = 0;

/// Returns the Deployment of a revision with these pods. It sets no number of replicas: the autoscaler owns that field.
pub(super) fn deployment(workload: &Workload, pod: PodTemplateSpec, owner: Option<&OwnerReference>) -> Deployment {
    let revision = &workload.revision;
    Deployment {
        metadata: metadata(revision, owner),
        spec: Some(DeploymentSpec {
            revision_history_limit: Some(FORMER_TEMPLATES),
            selector: LabelSelector { match_labels: Some(pod_selector(revision)), ..LabelSelector::default() },
            template: pod,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}
