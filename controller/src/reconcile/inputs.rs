//! Inputs of a service's reconciliation. While they are equal, reconciling again would change nothing.

use std::sync::Arc;

use weir_cluster::{Applied, Conflict, Gateway, Revision, UntrustedReplicas};

use super::observed::Observed;
use crate::declaration::DeclaredService;
use crate::status::route_is_live;

/// Everything that the reconciliation of one service reads, except the time.
pub(super) struct Inputs {
    service: DeclaredService,
    revisions: Vec<Arc<Revision>>,
    /// Replicas of each revision that gateways do not trust; `None` for a revision without any.
    untrusted: Vec<Option<UntrustedReplicas>>,
    gateways: Arc<[Gateway]>,
    /// `Ok` if every gateway has the route; otherwise the name of a gateway that lacks it.
    live: Result<(), String>,
    conflicts: Vec<Conflict>,
    is_drifted: bool,
}

impl Inputs {
    /// Returns the inputs of a service whose last plan was applied as `applied`.
    pub(super) fn of(observed: &Observed, service: &DeclaredService, applied: Option<Applied>) -> Self {
        let (gateways, reports) = (&observed.snapshot.gateways, &observed.reports);
        let name = &service.service.name;
        let revisions: Vec<_> = observed.snapshot.revisions_of(name).cloned().collect();
        Self {
            service: service.clone(),
            untrusted: revisions.iter().map(|revision| observed.untrusted.get(&revision.name).cloned()).collect(),
            revisions,
            gateways: gateways.clone(),
            live: route_is_live(applied, gateways, reports),
            conflicts: observed.conflicts_of(name).to_vec(),
            is_drifted: observed.snapshot.drifted.contains(name),
        }
    }

    /// Returns true if the inputs are unchanged; services and revisions are compared by pointer. It runs for every
    /// service whenever anything changes, and so makes no copies.
    pub(super) fn are(&self, observed: &Observed, service: &DeclaredService, applied: Option<Applied>) -> bool {
        let name = &service.service.name;
        let snapshot = &observed.snapshot;
        self.service.is(service)
            && snapshot.revisions_of(name).map(Arc::as_ptr).eq(self.revisions.iter().map(Arc::as_ptr))
            && self
                .revisions
                .iter()
                .map(|revision| observed.untrusted.get(&revision.name))
                .eq(self.untrusted.iter().map(Option::as_ref))
            && self.is_drifted == snapshot.drifted.contains(name)
            // An overwritten status always counts as a change, so that it is written again.
            && !observed.overwritten.contains(name)
            && self.conflicts == observed.conflicts_of(name)
            && (Arc::ptr_eq(&self.gateways, &snapshot.gateways) || self.gateways == snapshot.gateways)
            && self.live == route_is_live(applied, &snapshot.gateways, &observed.reports)
    }
}
