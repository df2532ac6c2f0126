//! The state of a cluster at one moment: routes, revisions with their replicas and scaling policies, gateways.

mod changes;
mod failure_report;
mod outlook;
mod replica;
mod revision;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use failure_report::FailureReport;
pub use outlook::Outlook;
pub use replica::{Address, Endpoints, Failure, FailureReason, Phase, Replica};
pub use revision::{GpuSharing, Revision, SharedGpu, Transport};

use crate::{RevisionName, Routes, ServiceName};
use changes::Changes;
use tokio::sync::watch;

/// Revisions by name. Successive snapshots share unchanged revisions, so that a reader finds the changed ones by
/// comparing pointers.
pub type Revisions = BTreeMap<RevisionName, Arc<Revision>>;

/// One consistent state of the cluster. Clones share the data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Number that increases with every change, within the process that made the snapshot.
    pub generation: u64,
    /// Routes of all services. They have a generation of their own, which gateways report back.
    pub routes: Arc<Routes>,
    /// Revisions that run, should run, or are still ending.
    pub revisions: Arc<Revisions>,
    /// The running gateways, sorted by name. They share each replica's credits.
    pub gateways: Arc<[Gateway]>,
    /// Services whose objects a client other than Weir changed or deleted since Weir applied them.
    pub drifted: Arc<BTreeSet<ServiceName>>,
}

impl Snapshot {
    /// Returns the revision of this name.
    #[must_use]
    pub fn revision(&self, name: &RevisionName) -> Option<&Arc<Revision>> {
        self.revisions.get(name)
    }

    /// Returns, in order, the names of the revisions that were added, removed or replaced since `before`. Revisions are
    /// compared by pointer: an equal revision that the snapshots do not share counts as changed.
    pub fn changed<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a RevisionName> {
        Changes::new(&self.revisions, &before.revisions)
    }

    /// Iterates over the revisions of one service.
    pub fn revisions_of(&self, service: &ServiceName) -> impl Iterator<Item = &Arc<Revision>> {
        self.revisions.range(RevisionName::all_of(service)).map(|(_, revision)| revision)
    }
}

/// Snapshots of a cluster; read by gateway, controller and autoscaler.
pub trait Directory: Send + Sync {
    /// Returns a receiver of the current state and every later one. The latest state is available at once; a slow
    /// reader skips states.
    fn watch(&self) -> watch::Receiver<Arc<Snapshot>>;
}

/// One gateway process of the platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Name, unique among the running gateways.
    pub name: Arc<str>,
    /// Address for requests; other gateways also hand requests over to this address.
    pub serving: Address,
    /// Address of the admin port, which serves metrics and the watch of the gateway's reports; None if the gateway has
    /// no known admin port.
    pub admin: Option<Address>,
}
