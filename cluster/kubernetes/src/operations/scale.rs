//! [`Scale`] over the scale subresource of Deployments.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use weir_cluster::{ClusterError, ReplicaLoads, RevisionName, Scale, replica_loads};

use crate::objects::AUTOSCALER;
use crate::view::generation;
use crate::view::observed::NotedReplicas;
use crate::view::placements::{COST, CostEdit};
use crate::{Kubernetes, error};

/// Timeout for setting deletion costs: the scale-in itself matters more than its order.
const MARKED_WITHIN: Duration = Duration::from_secs(2);

/// Concurrent writes of deletion costs, so that hundreds of pods are marked within [`MARKED_WITHIN`].
const AT_ONCE: usize = 8;

#[async_trait]
impl Scale for Kubernetes {
    async fn scale(&self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError> {
        self.mark_first(revision, replicas).await;
        let deployments = self.deployments(revision.service().namespace());
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        match deployments.patch_scale(revision.as_str(), &as_autoscaler(), &patch).await {
            Ok(scale) => {
                let noted = NotedReplicas { revision: revision.clone(), replicas, version: generation(&scale) };
                self.noted(noted).await;
                Ok(())
            }
            Err(error) if error::is_not_found(&error) => {
                Err(ClusterError::UnknownRevision { name: revision.to_string() })
            }
            Err(error) => Err(error::of(revision, error)),
        }
    }
}

impl Kubernetes {
    /// Sets the deletion cost of the replicas that are to end first: those with the fewest requests, and among equals
    /// those that free a node. A failure is logged, and the scale-in happens all the same.
    async fn mark_first(&self, revision: &RevisionName, replicas: u32) {
        let loads = self.loads(revision);
        let edits = self.notes.placements.lock().edits(revision, replicas, &loads);
        if edits.is_empty() {
            return;
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), revision.service().namespace());
        let writes = stream::iter(edits).map(|edit| mark(&pods, edit));
        let writes = writes.buffer_unordered(AT_ONCE).try_collect::<()>();
        match tokio::time::timeout(MARKED_WITHIN, writes).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%revision, %error, "cannot set pod-deletion-cost: the scale-in may end any replica");
            }
            Err(_) => {
                tracing::warn!(%revision, "timed out setting pod-deletion-cost: the scale-in may end any replica");
            }
        }
    }

    /// Returns the gateways' requests in flight at each replica, by their latest reports; empty where reports are not
    /// followed.
    fn loads(&self, revision: &RevisionName) -> ReplicaLoads {
        let reports = self.reports.as_ref();
        reports.map_or_else(ReplicaLoads::new, |reports| replica_loads(&reports.borrow(), revision))
    }
}

async fn mark(pods: &Api<Pod>, edit: CostEdit) -> Result<(), ClusterError> {
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { COST: edit.cost } } }));
    match pods.patch_metadata(&edit.pod, &as_autoscaler(), &patch).await {
        Ok(_) => Ok(()),
        Err(error) if error::is_not_found(&error) => Ok(()),
        Err(error) => Err(error::of(&edit.pod, error)),
    }
}

fn as_autoscaler() -> PatchParams {
    PatchParams { field_manager: Some(AUTOSCALER.to_owned()), ..PatchParams::default() }
}
