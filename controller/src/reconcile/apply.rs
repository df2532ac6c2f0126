//! Telling the cluster what should run.

use weir_cluster::{Apply, ClusterError};

use super::in_time;
use super::state::ServiceState;
use crate::{ControllerError, Plan};

/// Applies a plan, unless the cluster has it. One that it refused is not tried again: it can never run.
pub(super) async fn apply(
    cluster: &dyn Apply,
    plan: Plan,
    state: &mut ServiceState,
) -> Result<(), ControllerError> {
    let told = state.told.as_ref().map(|(desired, _)| desired);
    if let Some(told) = told.filter(|told| **told == plan.desired) {
        let desired = told.clone();
        state.plan = Some(Plan { desired, ..plan });
        return Ok(());
    }
    let desired = plan.desired.clone();
    state.plan = Some(plan);
    match in_time("applying a service", cluster.apply(desired.clone())).await {
        Ok(applied) => state.told = Some((desired, Ok(applied))),
        Err(ControllerError::Cluster(
            error @ (ClusterError::Refused { .. } | ClusterError::Name { .. }),
        )) => state.told = Some((desired, Err(error.to_string()))),
        Err(error) => return Err(error),
    }
    Ok(())
}
