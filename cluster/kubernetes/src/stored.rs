//! A revision as it is stored.

use weir_cluster::{Identity, PodTemplate, ReadyCall, RevisionName, Storage, Workload};

/// A revision as people asked for it. It is stored when it is made, and never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRevision {
    /// Name of the revision, whose number is taken by whoever stores it first.
    pub revision: RevisionName,
    /// Hash of what shapes its pods.
    pub identity: Identity,
    /// The pod of each replica, as people wrote it.
    pub template: PodTemplate,
    /// Models to put into the pod before it starts.
    pub storage: Vec<Storage>,
    /// The way in which its pods are found ready, as far as it is declared. It is kept in the pod only.
    pub ready_call: Option<ReadyCall>,
}

impl StoredRevision {
    /// The revision that a workload is of.
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

    /// Whether both have the same pods. Equal ones do, though another version of Weir may have hashed them otherwise.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let place = |storage: &Storage| (storage.uri.clone(), storage.mount_path.clone());
        let places = self.storage.iter().map(place);
        self.identity == other.identity
            || (self.template == other.template && places.eq(other.storage.iter().map(place)))
    }
}
