//! Failures of a revision, for those who do not see its replicas.

use std::sync::Arc;

use super::{Failure, Outlook, Revision};
use crate::RevisionName;

/// Failures of a revision, for gateways that do not see its replicas themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureReport {
    /// Name of the revision.
    pub revision: RevisionName,
    /// Prospect of the revision while no replica is ready.
    pub outlook: Outlook,
    /// Cause of having no ready replica.
    pub failure: Option<Failure>,
    /// Last ends of the replicas' programs, by the replicas' names.
    pub exits: Vec<(Arc<str>, Failure)>,
}

impl FailureReport {
    /// The report of a revision whose replicas are seen.
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
