//! State of the world when a reconciliation begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_cluster::{Conflict, LatestReports, Routes, ServiceName, Snapshot, UntrustedByRevision};

use crate::declaration::Declaration;

/// Latest version of everything that a reconciliation reads.
pub(super) struct Observed {
    pub(super) declaration: Arc<Declaration>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) reports: Arc<LatestReports>,
    pub(super) untrusted: UntrustedByRevision,
    pub(super) conflicts: Arc<HostConflicts>,
    /// Services whose status another writer changed.
    pub(super) overwritten: Arc<BTreeSet<ServiceName>>,
    /// Current time in seconds since 1970.
    pub(super) now: u64,
}

/// Conflicts over hosts, by the service that does not get them.
pub(super) type HostConflicts = BTreeMap<ServiceName, Vec<Conflict>>;

/// Conflicts of the last routes, cached because finding them compares every host.
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
    /// Returns the conflicts of these routes.
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
