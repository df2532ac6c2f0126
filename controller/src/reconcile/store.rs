//! Keeping a service's past where the next controller finds it.

use std::sync::Arc;

use weir_cluster::ServiceName;

use super::in_time;
use super::state::ServiceState;
use crate::{ControllerError, Service, Source};

/// A service that is new to this controller.
pub(super) async fn load(
    source: &dyn Source,
    service: &Service,
) -> Result<ServiceState, ControllerError> {
    let history = in_time("recalling a service", source.load(&service.name)).await?;
    Ok(ServiceState {
        history: history.clone().unwrap_or_default(),
        kept: history,
        status: Arc::new(service.object.status.clone().unwrap_or_default()),
        ..ServiceState::default()
    })
}

/// Keeps what changed, before anything runs under a new revision's name.
pub(super) async fn store(
    source: &dyn Source,
    service: &ServiceName,
    state: &mut ServiceState,
) -> Result<(), ControllerError> {
    if state.kept.as_ref() == Some(&state.history) {
        return Ok(());
    }
    let kept = source.store(service, &state.history);
    in_time("remembering a service", kept).await?;
    state.kept = Some(state.history.clone());
    Ok(())
}
