//! One revision as the controller asks for it: pod template, storage, replicas and scaling bounds.

mod identity;
mod meaning;
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

/// One revision as it should run. Everything but `replicas`, `concurrency` and `scaling` is fixed for its life.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name of the revision.
    pub revision: RevisionName,
    /// The pod of each replica.
    pub template: PodTemplate,
    /// The models to put into the pod before it starts.
    pub storage: Vec<Storage>,
    /// The way in which a replica is found ready, as far as it is declared; no part of the identity.
    pub ready_call: Option<ReadyCall>,
    /// Replicas at creation. Afterwards only `Scale` changes their number.
    pub replicas: u32,
    /// Requests a replica takes at once; unset: the replica says so itself, or it is found out.
    pub concurrency: Option<NonZeroU32>,
    /// Bounds and targets for the autoscaler; unset: it leaves the number of replicas alone.
    pub scaling: Option<Arc<ScalingPolicy>>,
}

/// The way in which a replica is found ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadyCall {
    /// By `GET /v2/health/ready`, which a gateway may call itself.
    V2,
    /// By the platform's own probe only.
    Platform,
}

/// The place of a model's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// URI of the files, such as `pvc://models/digits`.
    pub uri: Arc<str>,
    /// Where the container expects them: an absolute path.
    pub mount_path: Arc<str>,
    /// The directory beside the manifest in which, without Kubernetes, claims lie by their names. It
    /// moves with the manifest and is no part of the identity.
    pub claims: Option<PathBuf>,
}

impl Storage {
    /// Where a model lies in a container unless the manifest says otherwise.
    pub const MOUNT_PATH: &'static str = "/mnt/models";

    /// Separator in a URI between the path of files on this machine and their state.
    const STATE: &'static str = "#files:";

    /// A URI of files on this machine in this state, which makes files that change another revision.
    #[must_use]
    pub fn uri_in_state(uri: &str, state: &str) -> String {
        format!("{uri}{}{state}", Self::STATE)
    }

    /// The URI without the state of its files.
    #[must_use]
    pub fn plain_uri(&self) -> &str {
        match self.uri.rsplit_once(Self::STATE) {
            Some((plain, _)) => plain,
            None => &self.uri,
        }
    }
}

impl Workload {
    /// The name of the container that serves, where a pod has several.
    pub const CONTAINER: &'static str = "kserve-container";

    /// Hash of what shapes its pods.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity::of(&self.template, &self.storage)
    }
}
