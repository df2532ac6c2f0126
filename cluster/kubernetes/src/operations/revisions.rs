//! Revisions stored as ControllerRevisions, which must outlive the controller that made them.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;
use weir_cluster::{ClusterError, RevisionName, ServiceName};

use crate::api::find;
use crate::objects::{
    CONTROLLER, KeptRevision, check_owner, complete, controller_revision, is_inference_service, kept, rollout,
    rollout_name,
};
use crate::operations::owner::Owner;
use crate::stored::StoredRevision;
use crate::{Kubernetes, error};

impl Kubernetes {
    /// Stores a revision, completed for this cluster. A revision that is stored already stays unchanged.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when its storage is not supported here, or an object of another owner has its name.
    /// [`ClusterError::Denied`] when another revision has its name: read the stored ones again and take the next
    /// number. [`ClusterError::Unavailable`] when the API server does not answer.
    pub async fn put_revision(&self, stored: &StoredRevision) -> Result<(), ClusterError> {
        let owner = self.owner(stored.revision.service()).await?;
        let kept = self.kept_or_completed(stored.clone(), None, &owner).await?;
        let kept = kept.ok_or_else(|| taken(&stored.revision))?;
        self.keep(kept, None, owner.reference().as_ref()).await?;
        Ok(())
    }

    /// Removes a stored revision. A missing one is no error.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when the object of this name is not Weir's. [`ClusterError::Denied`] and
    /// [`ClusterError::Unavailable`] as the API server answers.
    pub async fn remove_revision(&self, revision: &RevisionName) -> Result<(), ClusterError> {
        let revisions = self.controller_revisions(revision.service());
        let Some(existing) = find(&revisions, revision.as_str()).await? else {
            return Ok(());
        };
        check_owner(&existing, revision.service())?;
        let only_this =
            DeleteParams::background().preconditions(Preconditions { uid: existing.uid(), resource_version: None });
        match revisions.delete(revision.as_str(), &only_this).await {
            Ok(_) => Ok(()),
            Err(error) if error::is_not_found(&error) => Ok(()),
            Err(error) => Err(error::of(revision, error)),
        }
    }

    /// Stores the state of a service's rollout in one write.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when the object that stores it is not Weir's. [`ClusterError::Denied`] and
    /// [`ClusterError::Unavailable`] as the API server answers.
    pub async fn put_rollout(&self, service: &ServiceName, text: &str) -> Result<(), ClusterError> {
        let owner = self.owner(service).await?.reference();
        let revisions = self.controller_revisions(service);
        let object = rollout(service, text, owner.as_ref());
        match revisions.create(&as_controller(), &object).await {
            Err(error) if error::is_there_already(&error) => {}
            made => return made.map(drop).map_err(|error| error::of(service, error)),
        }
        let name = rollout_name(service);
        if let Some(existing) = find(&revisions, &name).await? {
            check_owner(&existing, service)?;
        }
        let changed = self.patch_rollout(&object).await;
        changed.map_err(|error| error::of(service, error))
    }

    /// Changes the stored state of a service's rollout in one write.
    ///
    /// # Errors
    /// The same errors as [`Self::put_rollout`].
    pub async fn change_rollout(&self, service: &ServiceName, text: &str) -> Result<(), ClusterError> {
        let owner = self.owner(service).await?.reference();
        match self.patch_rollout(&rollout(service, text, owner.as_ref())).await {
            Err(error) if error::is_not_found(&error) => self.put_rollout(service, text).await,
            changed => changed.map_err(|error| error::of(service, error)),
        }
    }

    async fn patch_rollout(&self, object: &ControllerRevision) -> Result<(), kube::Error> {
        let namespace = object.namespace().unwrap_or_default();
        let revisions: Api<ControllerRevision> = Api::namespaced(self.client.clone(), &namespace);
        let patch = Patch::Merge(json!({ "metadata": {
            "annotations": object.metadata.annotations,
            "labels": object.metadata.labels,
            "ownerReferences": object.metadata.owner_references,
        } }));
        let params = PatchParams { field_manager: Some(CONTROLLER.to_owned()), ..PatchParams::default() };
        revisions.patch(&object.name_any(), &params, &patch).await.map(drop)
    }

    pub(crate) fn controller_revisions(&self, service: &ServiceName) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), service.namespace())
    }

    /// Returns the stored form of a revision, or completes it if it is not stored. None when a different revision is
    /// stored under its name. Writes nothing.
    pub(crate) async fn kept_or_completed(
        &self,
        wanted: StoredRevision,
        existing: Option<&ControllerRevision>,
        owner: &Owner,
    ) -> Result<Option<KeptRevision>, ClusterError> {
        match existing {
            Some(existing) => same(existing, &wanted),
            None => {
                let context = self.pod_context(&wanted, owner).await?;
                Ok(Some(KeptRevision { pod: complete(&wanted, &self.options, &context)?, stored: wanted }))
            }
        }
    }

    /// Stores a revision unless it is stored already, and returns the stored pod.
    ///
    /// # Errors
    /// [`ClusterError::Denied`] when another revision was stored under its name in the meantime.
    pub(crate) async fn keep(
        &self,
        kept: KeptRevision,
        existing: Option<&ControllerRevision>,
        owner: Option<&OwnerReference>,
    ) -> Result<PodTemplateSpec, ClusterError> {
        let service = kept.stored.revision.service();
        if let Some(existing) = existing {
            self.hand_over(existing, service, owner).await?;
            return Ok(kept.pod);
        }
        let object = controller_revision(&kept, owner)?;
        match self.create_revision(&object, &kept.stored).await? {
            Some(there) => {
                let same = same(&there, &kept.stored)?;
                let same = same.ok_or_else(|| taken(&kept.stored.revision))?;
                self.hand_over(&there, service, owner).await?;
                Ok(same.pod)
            }
            None => Ok(kept.pod),
        }
    }

    /// Stores a revision. If an object of its name exists already, as after a faster writer, returns that object.
    async fn create_revision(
        &self,
        object: &ControllerRevision,
        wanted: &StoredRevision,
    ) -> Result<Option<ControllerRevision>, ClusterError> {
        let revisions = self.controller_revisions(wanted.revision.service());
        match revisions.create(&as_controller(), object).await {
            Ok(stored) => {
                self.kept.put(&stored);
                Ok(None)
            }
            Err(error) if error::is_there_already(&error) => find(&revisions, wanted.revision.as_str()).await,
            Err(error) => Err(error::of(&wanted.revision, error)),
        }
    }

    /// Makes the present InferenceService the owner of a stored revision; None removes the owner.
    pub(crate) async fn hand_over(
        &self,
        existing: &ControllerRevision,
        service: &ServiceName,
        owner: Option<&OwnerReference>,
    ) -> Result<(), ClusterError> {
        let before = existing.owner_references();
        let others = before.iter().filter(|owner| !is_inference_service(owner));
        let owners: Vec<_> = others.chain(owner).cloned().collect();
        if owners == before {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "resourceVersion": existing.resource_version(),
            "ownerReferences": owners,
        } });
        let params = PatchParams { field_manager: Some(CONTROLLER.to_owned()), ..PatchParams::default() };
        let name = existing.name_any();
        let revisions = self.controller_revisions(service);
        let patch = Patch::Merge(patch);
        let handed = revisions.patch(&name, &params, &patch).await;
        handed.map(drop).map_err(|error| error::of(&name, error))
    }
}

/// Returns the stored revision of an object; None when it differs from the wanted one.
fn same(existing: &ControllerRevision, wanted: &StoredRevision) -> Result<Option<KeptRevision>, ClusterError> {
    check_owner(existing, wanted.revision.service())?;
    let kept = kept(existing).map_err(|error| {
        let because = format!("its ControllerRevision cannot be read ({error}): delete that object");
        ClusterError::refused(&wanted.revision, because)
    })?;
    Ok(kept.stored.is_same(wanted).then_some(kept))
}

fn as_controller() -> PostParams {
    PostParams { field_manager: Some(CONTROLLER.to_owned()), ..PostParams::default() }
}

fn taken(revision: &RevisionName) -> ClusterError {
    let because = "another revision has this number already: it gets the next one";
    ClusterError::denied(revision, because)
}
