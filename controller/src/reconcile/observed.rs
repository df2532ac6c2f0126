//! The state of the world when a reconciliation begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_cluster::{Conflict, LatestReports, Routes, ServiceName, Snapshot};

use crate::declaration::Declaration;

/// The latest of everything that a reconciliation reads.
pub(super) struct Observed {
    pub(super) declaration: Arc<Declaration>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) reports: Arc<LatestReports>,
    pub(super) conflicts: Arc<HostConflicts>,
    /// Services whose status somebody else changed.
    pub(super) overwritten: Arc<BTreeSet<ServiceName>>,
    /// Current time in seconds since 1970.
    pub(super) now: u64,
}

/// Hosts that belong to another service, by the service that wants them.
pub(super) type HostConflicts = BTreeMap<ServiceName, Vec<Conflict>>;

/// The conflicts of the last routes: finding them compares every host.
#[derive(Default)]
pub(super) struct ConflictCache {
    routes: Arc<Routes>,
    conflicts: Arc<HostConflicts>,
}

impl Observed {
    pub(super) fn conflicts_of(&self, service: &ServiceName) -> &[Conflict] {
        self.conflicts.get(service).map_or(&[], Vec::as_slice)
    }
}

impl ConflictCache {
    /// The conflicts of these routes.
    pub(super) fn conflicts(&mut self, routes: &Arc<Routes>) -> Arc<HostConflicts> {
        if !Arc::ptr_eq(routes, &self.routes) {
            let mut conflicts = HostConflicts::new();
            for conflict in routes.conflicts() {
                let of_loser = conflicts.entry(conflict.loser.clone()).or_default();
                of_loser.push(conflict);
            }
            self.routes = routes.clone();
            self.conflicts = Arc::new(conflicts);
        }
        self.conflicts.clone()
    }
}
