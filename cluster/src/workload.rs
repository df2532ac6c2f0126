//! One revision as requested by the controller: pod template, storage, replicas and scaling bounds.

mod canonical_form;
mod identity;
mod metrics_port;
mod ports;
mod template;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

pub use identity::Identity;
pub use ports::ContainerPorts;
pub use template::PodTemplate;

use crate::{RevisionName, ScalingPolicy};

/// Desired state of one revision. Only `replicas`, `concurrency` and `scaling` may change during the revision's life.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name of the revision.
    pub revision: RevisionName,
    /// Pod template of each replica.
    pub template: PodTemplate,
    /// Models to place in the pod before it starts.
    pub storage: Vec<Storage>,
    /// Call by which a replica is found ready; `None` if the manifest does not declare it. Not part of the identity.
    pub ready_call: Option<ReadyCall>,
    /// Number of replicas at creation. Afterwards only `Scale` changes the number.
    pub replicas: u32,
    /// Maximum concurrent requests per replica; `None`: the replica reports it, or the gateway finds it by measurement.
    pub concurrency: Option<NonZeroU32>,
    /// Bounds and targets for the autoscaler; `None`: the autoscaler leaves the number of replicas alone.
    pub scaling: Option<Arc<ScalingPolicy>>,
}

/// Call by which a replica is found ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadyCall {
    /// `GET /v2/health/ready`, which a gateway may call too.
    V2,
    /// Only the platform's own probe.
    Platform,
}

/// Location of a model's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// URI of the files, such as `pvc://models/digits`.
    pub uri: Arc<str>,
    /// Absolute path at which the container expects the files.
    pub mount_path: Arc<str>,
    /// Without Kubernetes: directory next to the manifest that contains the volume claims, by name. It moves with the
    /// manifest and is not part of the identity. None on Kubernetes.
    pub claims: Option<PathBuf>,
}

impl Storage {
    /// Default path of a model in a container.
    pub const MOUNT_PATH: &'static str = "/mnt/models";

    /// Beginning of the URI of a model whose store is named by an entry of the Secret `storage-config`, as in KServe.
    /// The entry has the scheme and, unless the rest of the URI begins with it, the bucket.
    pub const OF_CONFIG: &'static str = "<scheme-placeholder>://";

    /// Separator in a URI between the path of local files and a hash of their state.
    const STATE: &'static str = "#files:";

    /// Returns a URI of local files that includes their state, so that changed files make a new revision.
    #[must_use]
    pub fn uri_in_state(uri: &str, state: &str) -> String {
        format!("{uri}{}{state}", Self::STATE)
    }

    /// Returns the URI without the state of the files.
    #[must_use]
    pub fn plain_uri(&self) -> &str {
        match self.uri.rsplit_once(Self::STATE) {
            Some((plain, _)) => plain,
            None => &self.uri,
        }
    }
}

impl Workload {
    /// Name of the serving container in a pod with several containers.
    pub const CONTAINER: &'static str = "kserve-container";

    /// Creates a workload without models, and without limits on concurrency and scaling.
    #[must_use]
    pub fn new(revision: RevisionName, template: impl Into<PodTemplate>, replicas: u32) -> Self {
        let template = template.into();
        Self { revision, template, storage: Vec::new(), ready_call: None, replicas, concurrency: None, scaling: None }
    }

    /// Returns the hash of everything that shapes the workload's pods.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity::of(&self.template, &self.storage)
    }
}
