//! The InferenceService that owns the objects of a service, so that they end with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use weir_cluster::{ClusterError, ServiceName};

use crate::{Kubernetes, error};

const GROUP: &str = "serving.kserve.io";
const VERSION: &str = "v1beta1";
const KIND: &str = "InferenceService";
const PLURAL: &str = "inferenceservices";

impl Kubernetes {
    /// The reference to a service's InferenceService; none when there is none of its name.
    pub(crate) async fn owner(
        &self,
        service: &ServiceName,
    ) -> Result<Option<OwnerReference>, ClusterError> {
        let found = self.metadata(service).await?;
        Ok(found.and_then(|found| reference(&found)))
    }

    /// The metadata of a service's InferenceService; none when there is none of its name.
    pub(crate) async fn metadata(
        &self,
        service: &ServiceName,
    ) -> Result<Option<ObjectMeta>, ClusterError> {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, KIND), PLURAL);
        let all: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), service.namespace(), &resource);
        let found = all.get_metadata_opt(service.name()).await;
        let found = found.map_err(|e| error::of(service, e))?;
        Ok(found.map(|found| found.metadata))
    }
}

/// Names the owner's kind and the object that it is now: one made anew under its name is another.
fn reference(owner: &ObjectMeta) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: format!("{GROUP}/{VERSION}"),
        kind: KIND.to_owned(),
        name: owner.name.clone()?,
        uid: owner.uid.clone()?,
        controller: Some(true),
        block_owner_deletion: None,
    })
}

/// Whether a reference is to an InferenceService, of whichever life and version.
pub(crate) fn is_inference_service(reference: &OwnerReference) -> bool {
    let group = reference.api_version.split('/').next();
    group == Some(GROUP) && reference.kind == KIND
}
