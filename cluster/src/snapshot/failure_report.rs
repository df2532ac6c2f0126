//! Failures of a revision, for readers that do not see its replicas.

use std::sync::Arc;

use super::{Failure, Outlook, Revision};
use crate::RevisionName;

/// Failures of a revision, for gateways that do not see its replicas themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureReport {
    /// Name of the revision.
    pub revision: RevisionName,
    /// Expected result of the starts of replicas while none is ready.
    pub outlook: Outlook,
    /// Last cause that the revision was not ready; `None` once a replica is ready.
    pub failure: Option<Failure>,
    /// Last exit of each replica's program, with the replica's name.
    pub exits: Vec<(Arc<str>, Failure)>,
}

impl FailureReport {
    /// Builds the report of a revision whose replicas are visible.
    #[must_use]
    pub fn of(revision: &Revision) -> Self {
        let exits = revision.replicas.iter().filter(|replica| replica.phase.is_counted());
        Self {
            revision: revision.name.clone(),
            outlook: revision.outlook(),
            failure: revision.failure.clone(),
            exits: exits.filter_map(|replica| Some((replica.name.clone(), replica.last_exit.clone()?))).collect(),
        }
    }
}
