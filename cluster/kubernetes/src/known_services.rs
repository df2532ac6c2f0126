//! Metadata of InferenceServices from a watch of this process, which saves requests to the API server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::ServiceName;

/// InferenceServices that this process watches, so that their metadata need not be requested.
pub trait KnownServices: Send + Sync {
    /// Returns the metadata of the InferenceService of this name; None if there is none.
    fn metadata(&self, service: &ServiceName) -> Option<ObjectMeta>;
}
