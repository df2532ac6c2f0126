//! InferenceServices and ClusterStorageContainers from a watch of this process, which saves requests to the API server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::ServiceName;
use weir_crds::StorageContainer;

/// Objects that this process watches, so that they need not be requested.
pub trait KnownServices: Send + Sync {
    /// Returns the metadata of the InferenceService of this name; None if there is none.
    fn metadata(&self, service: &ServiceName) -> Option<ObjectMeta>;

    /// Returns the ClusterStorageContainers in the order in which they are tried.
    fn storage_containers(&self) -> Vec<StorageContainer>;
}
