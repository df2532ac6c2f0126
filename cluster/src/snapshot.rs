//! The state of a cluster at one moment: what runs where, with each revision's scaling policy.

mod changes;
mod gateway;
mod replica;
mod revision;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use gateway::Gateway;
pub use replica::{Address, Endpoints, Failure, FailureReason, Phase, Replica};
pub use revision::Revision;

use crate::{RevisionName, Routes, ServiceName};
use changes::Changes;

/// Revisions by name. Clones of one share what did not change, so that a reader of the next finds what
/// did by the pointers.
pub type Revisions = BTreeMap<RevisionName, Arc<Revision>>;

/// One consistent state of the cluster. Cloning shares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Grows with every change, within the process that made the snapshot.
    pub generation: u64,
    /// Where requests go. Has a generation of its own, which gateways report back.
    pub routes: Arc<Routes>,
    /// Revisions that run, should run, or still end.
    pub revisions: Arc<Revisions>,
    /// The gateways that are up, sorted by name: they share each replica's credits.
    pub gateways: Arc<[Gateway]>,
    /// Services whose objects somebody else changed or deleted since they were applied.
    pub drifted: Arc<BTreeSet<ServiceName>>,
}

impl Snapshot {
    /// The revision of this name.
    #[must_use]
    pub fn revision(&self, name: &RevisionName) -> Option<&Arc<Revision>> {
        self.revisions.get(name)
    }

    /// The names of the revisions that came, went, or are another value than in this state, in order. One
    /// that the snapshots do not share counts as another.
    pub fn changed<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a RevisionName> {
        Changes::new(&self.revisions, &before.revisions)
    }

    /// The revisions of one service.
    pub fn revisions_of(&self, service: &ServiceName) -> impl Iterator<Item = &Arc<Revision>> {
        let range = self.revisions.range(RevisionName::all_of(service));
        range.map(|(_, revision)| revision)
    }
}
