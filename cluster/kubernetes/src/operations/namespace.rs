//! Pod Security Standard that a namespace enforces.

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::api::Api;
use weir_cluster::{ClusterError, ServiceName};

use crate::objects::Enforced;
use crate::{Kubernetes, error};

/// Label with the Pod Security Standard that a namespace enforces.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

impl Kubernetes {
    /// Returns what the namespace of a service enforces for its pods. Without permission to read the namespace, the
    /// result is [`Enforced::Less`]. If the namespace enforces `restricted` after all, the denied pods show up as a
    /// failure of their revision.
    pub(crate) async fn enforced(&self, service: &ServiceName) -> Result<Enforced, ClusterError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = match namespaces.get_metadata_opt(service.namespace()).await {
            Err(kube::Error::Api(status)) if status.code == 403 => None,
            found => found.map_err(|e| error::of(service, e))?,
        };
        let level = namespace.and_then(|found| found.labels().get(ENFORCE).cloned());
        Ok(match level.as_deref() {
            Some("restricted") => Enforced::Restricted,
            Some(_) | None => Enforced::Less,
        })
    }
}
