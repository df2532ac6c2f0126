//! Storing a service's history where the next controller finds it.

use weir_cluster::ServiceName;

use super::deadline::in_time;
use super::state::ServiceState;
use crate::error::ControllerError;
use crate::source::Source;

/// Loads the state of a service that is new to this controller.
pub(super) async fn load(
    source: &dyn Source,
    service: &ServiceName,
) -> Result<ServiceState, ControllerError> {
    let stored = in_time("loading the history", source.load(service)).await?;
    Ok(ServiceState {
        history: stored.history.clone().unwrap_or_default(),
        stored: stored.history,
        status: stored.status,
        ..ServiceState::default()
    })
}

/// Stores a changed history, before anything runs under a new revision's name.
pub(super) async fn store(
    source: &dyn Source,
    service: &ServiceName,
    state: &mut ServiceState,
) -> Result<(), ControllerError> {
    if state.stored.as_ref() == Some(&state.history) {
        return Ok(());
    }
    let stored = source.store(service, &state.history);
    in_time("storing the history", stored).await?;
    state.stored = Some(state.history.clone());
    Ok(())
}
