//! What a pass over one service inputs at: where it is as it was, the pass would do nothing again.

use std::sync::Arc;

use weir_cluster::{Conflict, Gateway, Revision};

use super::Observed;
use super::state::ServiceState;
use crate::status::route_is_live;
use crate::{Runtimes, Service};

/// All of the observed that a pass over one service inputs at, but for the time.
pub(super) struct Inputs {
    service: Arc<Service>,
    runtimes: Arc<Runtimes>,
    revisions: Vec<Arc<Revision>>,
    gateways: Arc<[Gateway]>,
    /// Whether every gateway has its route.
    live: Result<(), String>,
    conflicts: Vec<Conflict>,
}

impl Inputs {
    /// What there is to see for a service that was seen like this.
    pub(super) fn at(observed: &Observed, service: &Arc<Service>, state: &ServiceState) -> Self {
        let (gateways, reports) = (&observed.snapshot.gateways, &observed.reports);
        let applied = state.applied().unwrap_or_default();
        Self {
            service: service.clone(),
            runtimes: observed.declaration.runtimes.clone(),
            revisions: observed
                .snapshot
                .revisions_of(&service.name)
                .cloned()
                .collect(),
            gateways: gateways.clone(),
            live: route_is_live(applied, gateways, reports),
            conflicts: observed.conflicts_of(&service.name).to_vec(),
        }
    }

    /// Whether all of it is the very same.
    pub(super) fn is(&self, other: &Self) -> bool {
        let pairs = self.revisions.iter().zip(&other.revisions);
        Arc::ptr_eq(&self.service, &other.service)
            && Arc::ptr_eq(&self.runtimes, &other.runtimes)
            && self.revisions.len() == other.revisions.len()
            && pairs
                .into_iter()
                .all(|(one, other)| Arc::ptr_eq(one, other))
            && self.gateways == other.gateways
            && self.live == other.live
            && self.conflicts == other.conflicts
    }
}
