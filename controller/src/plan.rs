//! Desired state of a service, from its validated manifest and its history.

mod bounds;
#[cfg(test)]
mod laws;
mod route;
mod shares;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

use std::sync::Arc;

use weir_cluster::{ClusterError, Desired, RevisionName, ScalingPolicy, Tag, Workload};

use bounds::Bounds;
pub(crate) use route::tagged_host;

use crate::history::History;
use crate::manifest::scaling::{ScaledBy, Scaling};
use crate::manifest::validate::Validated;

/// Desired state of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Workloads and route for the cluster.
    pub desired: Desired,
    /// Every revision with traffic or a tag, for the status.
    pub shares: Vec<Share>,
}

/// Share of the traffic that a revision gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Name of the revision.
    pub revision: RevisionName,
    /// Share of the requests in percent; all shares add up to 100.
    pub percent: u8,
    /// Tags whose hosts lead to this revision alone.
    pub tags: Vec<Tag>,
}

/// Computes the desired state of a service. `history` comes from [`crate::revise`], so every revision has a record;
/// `now` is in seconds since 1970.
///
/// # Errors
/// None in practice, because the service is validated; a property test checks this.
pub fn plan(validated: &Validated, history: &History, now: u64) -> Result<Plan, ClusterError> {
    let (bounds, shares) = if validated.is_stopped {
        (Bounds::new(), Vec::new())
    } else {
        let bounds = bounds::bounds(validated, history, now);
        (bounds, shares::shares(validated, history))
    };
    let workloads = workloads(validated, history, &bounds);
    let route = route::route(validated, &shares)?;
    Ok(Plan { desired: Desired::new(validated.service.clone(), workloads, Some(route))?, shares })
}

/// Returns a workload for every revision with bounds.
fn workloads(validated: &Validated, history: &History, bounds: &Bounds) -> Vec<Workload> {
    let each = bounds.iter().filter_map(|(name, scaling)| {
        let record = history.record(name)?;
        Some(Workload {
            ready_call: record.ready_call,
            revision: name.clone(),
            template: record.template.clone(),
            storage: record.storage.clone(),
            replicas: scaling.at_creation(),
            concurrency: validated.concurrency,
            scaling: policy(scaling),
        })
    });
    each.collect()
}

/// Returns the policy for Weir's autoscaler; None if another autoscaler sets the replicas.
fn policy(scaling: &Scaling) -> Option<Arc<ScalingPolicy>> {
    let policy = match scaling.by {
        ScaledBy::Weir => scaling.policy.clone(),
        ScaledBy::MinReplicas => ScalingPolicy { max: Some(scaling.policy.min), ..scaling.policy.clone() },
        ScaledBy::Others => return None,
    };
    Some(Arc::new(policy))
}
