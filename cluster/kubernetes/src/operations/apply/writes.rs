//! Writes of single objects, skipped when the object already is as wanted.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::json;
use weir_cluster::{ClusterError, ServiceName, Workload};

use super::ServiceState;
use crate::api::{applied_form, find, put, put_value};
use crate::objects::{AUTOSCALER, CONTROLLER};
use crate::view::drift::{Existing, Kind, ManagedObject, ObjectState, Role, WrittenObjects};
use crate::view::held::wanted;
use crate::{Kubernetes, error};

/// Objects of a revision as the API server stores them.
pub(super) struct RevisionMarks {
    pub(super) name: Box<str>,
    pub(super) service: ObjectState,
    pub(super) deployment: ObjectState,
}

impl RevisionMarks {
    pub(super) fn add_to(&self, written: &mut WrittenObjects) {
        written.add(Kind::Service, &self.name, &self.service);
        written.add(Kind::Deployment, &self.name, &self.deployment);
    }
}

impl Kubernetes {
    /// Applies an object as the controller, unless the fields it has applied are the same already.
    pub(super) async fn put_unless_same<K>(
        &self,
        api: &Api<K>,
        (service, existing): (&ServiceName, &Existing),
        object: &K,
    ) -> Result<ObjectState, ClusterError>
    where
        K: ManagedObject + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let name = object.name_any();
        let value = applied_form(object, &name)?;
        let known = existing.get(K::KIND, &name);
        let wanted = wanted(&value);
        if let Some(same) = known.filter(|known| known.applied_digest == wanted) {
            return Ok(same.clone());
        }
        let stored = put_value(api, &value, &name, CONTROLLER).await?;
        Ok(self.notes.drift.lock().note(service, &stored))
    }

    /// Writes a Deployment. The autoscaler owns its number of replicas from the first write on.
    pub(super) async fn put_deployment(
        &self,
        state: &ServiceState,
        workload: &Workload,
        deployment: &Deployment,
    ) -> Result<ObjectState, ClusterError> {
        let api = &state.apis.deployments;
        let name = workload.revision.as_str();
        let Some(existing) = state.existing.get(Kind::Deployment, name) else {
            return self.make_deployment(state, workload, deployment).await;
        };
        let same = only_this(deployment, existing);
        let of = (workload.revision.service(), &state.existing);
        let object = self.put_unless_same(api, of, &same).await?;
        match existing.role {
            Role::Revision | Role::Alias | Role::OthersAlias | Role::OthersRevision => Ok(object),
            Role::HalfMade => {
                let found = find(api, name).await?;
                let replicas = found.and_then(|found| found.spec?.replicas);
                self.let_go(api, workload, &object, replicas.unwrap_or_default()).await
            }
        }
    }

    /// Creates a Deployment. The autoscaler's field manager creates it and, once the controller has applied the same
    /// fields, gives up all of them except the number of replicas.
    async fn make_deployment(
        &self,
        state: &ServiceState,
        workload: &Workload,
        deployment: &Deployment,
    ) -> Result<ObjectState, ClusterError> {
        let api = &state.apis.deployments;
        let name = workload.revision.as_str();
        let replicas = i32::try_from(workload.replicas).unwrap_or(i32::MAX);
        let mut first = deployment.clone();
        first.spec.get_or_insert_default().replicas = Some(replicas);
        let made = put(api, &first, name, AUTOSCALER).await?;
        let service = workload.revision.service();
        let made = self.notes.drift.lock().note(service, &made);
        let same = only_this(deployment, &made);
        let of = (service, &state.existing);
        let object = self.put_unless_same(api, of, &same).await?;
        self.let_go(api, workload, &object, replicas).await
    }

    /// Reduces the fields that the autoscaler's manager owns in a Deployment to this number of replicas. If another
    /// manager has set the number since the Deployment was created, the autoscaler's manager gives up that field too
    /// and the number stays.
    async fn let_go(
        &self,
        api: &Api<Deployment>,
        workload: &Workload,
        made: &ObjectState,
        replicas: i32,
    ) -> Result<ObjectState, ClusterError> {
        let name = workload.revision.as_str();
        let only = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "uid": made.uid },
            "spec": { "replicas": replicas },
        });
        // The patch is not forced, so it conflicts if another manager has set the number since. The autoscaler's later
        // updates do not conflict: they belong to the same manager, under another entry of `managedFields`.
        let params = PatchParams::apply(AUTOSCALER);
        let stored = match api.patch(name, &params, &Patch::Apply(&only)).await {
            Err(error) if error::is_conflict(&error) => {
                let mut nothing = only;
                nothing["spec"] = json!({});
                put_value(api, &nothing, name, AUTOSCALER).await?
            }
            stored => stored.map_err(|error| error::of(name, error))?,
        };
        let service = workload.revision.service();
        Ok(self.notes.drift.lock().note(service, &stored))
    }
}

/// Returns a Deployment that can only replace this object (by its UID). If the object was deleted meanwhile, the write
/// fails instead of creating one with an arbitrary number of replicas.
fn only_this(deployment: &Deployment, existing: &ObjectState) -> Deployment {
    let mut same = deployment.clone();
    same.metadata.uid = Some(existing.uid.to_string());
    same
}
