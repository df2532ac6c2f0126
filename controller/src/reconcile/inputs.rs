//! Inputs of a service's reconciliation: while they are equal, reconciling again would change nothing.

use std::sync::Arc;

use weir_cluster::{Applied, Conflict, Gateway, Revision};

use super::observed::Observed;
use crate::declaration::DeclaredService;
use crate::status::route_is_live;

/// Everything that the reconciliation of one service reads, except the time.
pub(super) struct Inputs {
    service: DeclaredService,
    revisions: Vec<Arc<Revision>>,
    gateways: Arc<[Gateway]>,
    /// `Ok` when every gateway has the route; the error names one that has not.
    live: Result<(), String>,
    conflicts: Vec<Conflict>,
    is_drifted: bool,
    is_overwritten: bool,
}

impl Inputs {
    /// The inputs of a service whose last plan was applied as `applied`.
    pub(super) fn of(observed: &Observed, service: &DeclaredService, applied: Option<Applied>) -> Self {
        let (gateways, reports) = (&observed.snapshot.gateways, &observed.reports);
        let name = &service.service.name;
        Self {
            service: service.clone(),
            revisions: observed.snapshot.revisions_of(name).cloned().collect(),
            gateways: gateways.clone(),
            live: route_is_live(applied, gateways, reports),
            conflicts: observed.conflicts_of(name).to_vec(),
            is_drifted: observed.snapshot.drifted.contains(name),
            // It is written again in any case.
            is_overwritten: false,
        }
    }

    /// Tells if the inputs are still these; services and revisions by pointer. It is asked of every service whenever
    /// anything changes, and makes no copies.
    pub(super) fn are(&self, observed: &Observed, service: &DeclaredService, applied: Option<Applied>) -> bool {
        let name = &service.service.name;
        let snapshot = &observed.snapshot;
        self.service.is(service)
            && snapshot.revisions_of(name).map(Arc::as_ptr).eq(self.revisions.iter().map(Arc::as_ptr))
            && self.is_drifted == snapshot.drifted.contains(name)
            && self.is_overwritten == observed.overwritten.contains(name)
            && self.conflicts == observed.conflicts_of(name)
            && (Arc::ptr_eq(&self.gateways, &snapshot.gateways) || self.gateways == snapshot.gateways)
            && self.live == route_is_live(applied, &snapshot.gateways, &observed.reports)
    }
}
