//! Applying a plan to the cluster.

use std::error::Error as _;

use weir_cluster::{Applied, Apply, ClusterError, Desired};

use super::deadline::in_time;
use super::observed::Observed;
use super::state::ServiceState;
use crate::error::ControllerError;
use crate::plan::Plan;
use crate::status::Refusal;

/// Applies a plan, unless the cluster already has it and no object has drifted. A refused plan
/// ([`ClusterError::Refused`]) is sent again after a fixed time. A denied plan ([`ClusterError::Denied`]) is an error,
/// so that the task is retried soon.
pub(super) async fn apply(
    cluster: &dyn Apply,
    plan: Plan,
    observed: &Observed,
    state: &mut ServiceState,
) -> Result<(), ControllerError> {
    state.unavailable = None;
    let is_intact = !observed.snapshot.drifted.contains(plan.desired.service());
    let is_intact = is_intact && !state.asks_again(observed.now);
    let sent = state.sent.as_ref();
    let sent = sent.filter(|(_, answer)| is_intact && is_final(answer));
    if let Some((sent, _)) = sent.filter(|(sent, _)| *sent == plan.desired) {
        let desired = sent.clone();
        state.plan = Some(Plan { desired, ..plan });
        return Ok(());
    }
    let desired = plan.desired.clone();
    state.plan = Some(plan);
    state.sent_at = observed.now;
    let applied = in_time("applying the service", cluster.apply(desired.clone())).await;
    match applied {
        Ok(applied) => {
            state.sent = Some((desired, Ok(applied)));
            Ok(())
        }
        Err(error) => refused(desired, error, state),
    }
}

/// Records why a plan does not run. Returns an error if the cluster denied the plan for now or did not answer, so that
/// the task is retried with a growing delay. A refused plan is no error; it is sent again after a fixed time.
pub(super) fn refused(
    desired: Desired,
    error: ControllerError,
    state: &mut ServiceState,
) -> Result<(), ControllerError> {
    let (refusal, error) = match error {
        ControllerError::Cluster(error @ (ClusterError::Refused { .. } | ClusterError::Name { .. })) => {
            (Refusal::Never(error.to_string()), None)
        }
        ControllerError::Cluster(error @ ClusterError::Denied { .. }) => {
            (Refusal::Now(error.to_string()), Some(error.into()))
        }
        error => {
            state.unavailable = Some(with_cause(&error));
            // A part of the plan may have been made, so that the cluster has neither this plan nor the one before.
            state.sent = None;
            return Err(error);
        }
    };
    state.sent = Some((desired, Err(refusal)));
    error.map_or(Ok(()), Err)
}

/// Returns the message of an error and of its cause.
fn with_cause(error: &ControllerError) -> String {
    let cause = error.source();
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Returns true if an equal plan need not be sent again at once: it was applied, or was refused for a reason that
/// retries alone do not remove.
fn is_final(answer: &Result<Applied, Refusal>) -> bool {
    match answer {
        Ok(_) | Err(Refusal::Never(_)) => true,
        Err(Refusal::Now(_)) => false,
    }
}
