//! InferenceService that owns the objects of a service, so that Kubernetes deletes them with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use weir_cluster::{ClusterError, ServiceName};

use crate::objects::{GROUP, OWNER_KIND};
use crate::{Kubernetes, error};

const VERSION: &str = "v1beta1";
const PLURAL: &str = "inferenceservices";

/// Metadata of the InferenceService of a service, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owner(Option<ObjectMeta>);

impl Owner {
    /// Returns a reference to the InferenceService with its UID: a new one of the same name is another owner.
    pub(crate) fn reference(&self) -> Option<OwnerReference> {
        let metadata = self.0.as_ref()?;
        Some(OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: OWNER_KIND.to_owned(),
            name: metadata.name.clone()?,
            uid: metadata.uid.clone()?,
            controller: Some(true),
            block_owner_deletion: None,
        })
    }

    /// Returns the metadata of the InferenceService, empty if there is none.
    pub(crate) fn metadata(&self) -> ObjectMeta {
        self.0.clone().unwrap_or_default()
    }
}

impl Kubernetes {
    /// Returns the InferenceService of a service from the watch, or else from the API server.
    ///
    /// # Errors
    /// [`ClusterError::Denied`] when InferenceServices are watched and this one was deleted: objects written without an
    /// owner would outlive it. [`ClusterError::Unavailable`] when the API server does not answer.
    pub(crate) async fn owner(&self, service: &ServiceName) -> Result<Owner, ClusterError> {
        let known = self.services.lock().clone();
        let Some(known) = known else {
            return self.asked(service).await;
        };
        let metadata = known.metadata(service);
        let gone = || ClusterError::denied(service, "its InferenceService was deleted");
        Ok(Owner(Some(metadata.ok_or_else(gone)?)))
    }

    async fn asked(&self, service: &ServiceName) -> Result<Owner, ClusterError> {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, OWNER_KIND), PLURAL);
        let all: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), service.namespace(), &resource);
        let found = all.get_metadata_opt(service.name()).await;
        let found = found.map_err(|e| error::of(service, e))?;
        Ok(Owner(found.map(|found| found.metadata)))
    }
}
