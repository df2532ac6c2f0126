//! Stored form of a revision.

use weir_cluster::{Identity, PodTemplate, ReadyCall, RevisionName, Storage, Workload};

/// Revision as its user declared it. It is stored when it is made, and never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRevision {
    /// Name of the revision. The first writer to store a number owns it.
    pub revision: RevisionName,
    /// Hash of everything that shapes its pods.
    pub identity: Identity,
    /// Pod of each replica, as the user wrote it.
    pub template: PodTemplate,
    /// Models to put into the pod before it starts.
    pub storage: Vec<Storage>,
    /// Readiness check of its pods, if the runtime declares one. It is stored only as part of the pod.
    pub ready_call: Option<ReadyCall>,
}

impl StoredRevision {
    /// Returns the revision of a workload.
    #[must_use]
    pub fn of(workload: &Workload) -> Self {
        Self {
            revision: workload.revision.clone(),
            identity: workload.identity(),
            template: workload.template.clone(),
            storage: workload.storage.clone(),
            ready_call: workload.ready_call,
        }
    }

    /// True if both revisions have the same pods. Equal pods may have different hashes when another version of Weir
    /// hashed them.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let place = |storage: &Storage| (storage.uri.clone(), storage.mount_path.clone());
        let places = self.storage.iter().map(place);
        self.identity == other.identity
            || (self.template == other.template && places.eq(other.storage.iter().map(place)))
    }
}
