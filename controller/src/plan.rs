//! What should run, from what is valid and what is remembered.

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
pub(crate) use bounds::is_held;
pub(crate) use route::tagged_host;

use crate::validate::{Run, Validated};
use crate::{History, ScaledBy, Scaling};

/// A service as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// For the cluster.
    pub desired: Desired,
    /// For the status: every revision with a share or a tag.
    pub shares: Vec<Share>,
}

/// A revision's part in a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which.
    pub revision: RevisionName,
    /// Its share of the requests, 0..=100; together they are 100.
    pub percent: u8,
    /// The tags that lead to it alone.
    pub tags: Vec<Tag>,
}

/// Plans a service. `history` is that of [`crate::revise`], so that every revision has its record;
/// `now` is in seconds since 1970.
///
/// # Errors
/// None in practice: what is valid makes a plan. A test holds that for many services.
pub fn plan(valid: &Validated, history: &History, now: u64) -> Result<Plan, ClusterError> {
    let bounds = match valid.run {
        Run::Serving => bounds::bounds(valid, history, now),
        Run::Stopped => Bounds::new(),
    };
    let shares = match valid.run {
        Run::Serving => shares::shares(valid, history),
        Run::Stopped => Vec::new(),
    };
    let workloads = workloads(valid, history, &bounds);
    let route = route::route(valid, &shares)?;
    Ok(Plan {
        desired: Desired::new(valid.service.clone(), workloads, Some(route))?,
        shares,
    })
}

/// One for every revision that has bounds.
fn workloads(valid: &Validated, history: &History, bounds: &Bounds) -> Vec<Workload> {
    let each = bounds.iter().filter_map(|(name, scaling)| {
        let record = history.record(name)?;
        Some(Workload {
            revision: name.clone(),
            template: record.template.clone(),
            storage: record.storage.clone(),
            replicas: scaling.at_creation(),
            concurrency: valid.concurrency,
            scaling: policy(scaling),
        })
    });
    each.collect()
}

/// The policy for the autoscaler, where it is the one that sets the number of replicas.
fn policy(scaling: &Scaling) -> Option<Arc<ScalingPolicy>> {
    match scaling.by {
        ScaledBy::Weir => Some(Arc::new(scaling.policy.clone())),
        ScaledBy::Others => None,
    }
}
