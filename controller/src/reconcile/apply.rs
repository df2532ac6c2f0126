//! Applying a plan to the cluster.

use weir_cluster::{Apply, ClusterError};

use super::deadline::in_time;
use super::state::ServiceState;
use crate::error::ControllerError;
use crate::plan::Plan;

/// Applies a plan unless the cluster has it. A refused plan is not sent again, as it can never run.
pub(super) async fn apply(
    cluster: &dyn Apply,
    plan: Plan,
    state: &mut ServiceState,
) -> Result<(), ControllerError> {
    let sent = state.sent.as_ref().map(|(desired, _)| desired);
    if let Some(sent) = sent.filter(|sent| **sent == plan.desired) {
        let desired = sent.clone();
        state.plan = Some(Plan { desired, ..plan });
        return Ok(());
    }
    let desired = plan.desired.clone();
    state.plan = Some(plan);
    match in_time("applying the service", cluster.apply(desired.clone())).await {
        Ok(applied) => state.sent = Some((desired, Ok(applied))),
        Err(ControllerError::Cluster(
            error @ (ClusterError::Refused { .. } | ClusterError::Name { .. }),
        )) => state.sent = Some((desired, Err(error.to_string()))),
        Err(error) => return Err(error),
    }
    Ok(())
}
