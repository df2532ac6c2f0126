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
}

impl Inputs {
    /// The inputs of a service whose last plan was applied as `applied`.
    pub(super) fn of(
        observed: &Observed,
        service: &DeclaredService,
        applied: Option<Applied>,
    ) -> Self {
        let (gateways, reports) = (&observed.snapshot.gateways, &observed.reports);
        let name = &service.service.name;
        Self {
            service: service.clone(),
            revisions: observed.snapshot.revisions_of(name).cloned().collect(),
            gateways: gateways.clone(),
            live: route_is_live(applied, gateways, reports),
            conflicts: observed.conflicts_of(name).to_vec(),
            is_drifted: observed.snapshot.drifted.contains(name),
        }
    }

    /// Compares two inputs; services and revisions by pointer.
    pub(super) fn is(&self, other: &Self) -> bool {
        let mut pairs = self.revisions.iter().zip(&other.revisions);
        self.service.is(&other.service)
            && self.revisions.len() == other.revisions.len()
            && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
            && self.gateways == other.gateways
            && self.live == other.live
            && self.conflicts == other.conflicts
            && self.is_drifted == other.is_drifted
    }
}
