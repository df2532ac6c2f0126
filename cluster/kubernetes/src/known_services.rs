//! Metadata of InferenceServices that a watch of this process has, so that the API server need not be asked.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::ServiceName;

/// The InferenceServices that somebody watches, so that they need not be asked for.
pub trait KnownServices: Send + Sync {
    /// The metadata of a service's InferenceService; none when there is none of its name.
    fn metadata(&self, service: &ServiceName) -> Option<ObjectMeta>;
}
