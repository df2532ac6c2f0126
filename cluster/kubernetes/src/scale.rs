//! `Scale` over the scale subresource of Deployments.

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use weir_cluster::{ClusterError, RevisionName, Scale};

use crate::objects::{AUTOSCALER, selector};
use crate::{Kubernetes, error};

#[async_trait]
impl Scale for Kubernetes {
    async fn scale(&self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError> {
        let deployments = self.deployments(revision.service().namespace());
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let params = PatchParams {
            field_manager: Some(AUTOSCALER.to_owned()),
            ..PatchParams::default()
        };
        match deployments
            .patch_scale(revision.as_str(), &params, &patch)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if error::is_not_found(&error) => Err(unknown(&deployments, revision).await),
            Err(error) => Err(error::of(revision, error)),
        }
    }
}

/// The error that says which revisions there are.
async fn unknown(deployments: &Api<Deployment>, revision: &RevisionName) -> ClusterError {
    let of_service = ListParams::default().labels(&selector(revision.service()));
    let known = match deployments.list_metadata(&of_service).await {
        Ok(known) => known.items.iter().map(ResourceExt::name_any).collect(),
        Err(_) => Vec::new(),
    };
    ClusterError::UnknownRevision {
        name: revision.to_string(),
        known: if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        },
    }
}
