//! What runs where, at one moment: all that a gateway has to know.

mod gateway;
mod replica;
mod revision;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use gateway::Gateway;
pub use replica::{Address, Endpoints, Failure, FailureReason, Phase, Replica};
pub use revision::{ReadyCall, Revision};

use crate::{RevisionName, Routes};

/// One consistent state of the cluster. Cloning shares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Grows with every change, within the process that made the snapshot.
    pub generation: u64,
    /// Where requests go. Has a generation of its own, which gateways report back.
    pub routes: Arc<Routes>,
    /// What runs, or should run, or still ends.
    pub revisions: Arc<BTreeMap<RevisionName, Arc<Revision>>>,
    /// The gateways that are up, sorted by name: they share each replica's credits.
    pub gateways: Arc<[Gateway]>,
}

impl Snapshot {
    /// The revision of this name.
    #[must_use]
    pub fn revision(&self, name: &RevisionName) -> Option<&Arc<Revision>> {
        self.revisions.get(name)
    }
}
