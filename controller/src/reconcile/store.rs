//! Loading and storing of a service's history, which outlives the controller.

use std::sync::Arc;

use weir_cluster::{ComponentKind, ServiceName};

use super::composed_statuses::ComposedStatuses;
use super::deadline::in_time;
use super::kept_status::KeptStatus;
use super::state::ServiceState;
use crate::declaration::DeclaredService;
use crate::error::ControllerError;
use crate::source::Source;
use crate::status::part;

/// Loads the state of a service that is new to this controller. The stored status is that of all `components`.
pub(super) async fn load(
    source: &dyn Source,
    statuses: &ComposedStatuses,
    declared: &DeclaredService,
    components: &[ComponentKind],
) -> Result<ServiceState, ControllerError> {
    let service = &declared.service.name;
    let mut stored = in_time("loading the history", source.load(service)).await?;
    if let (Some(history), Some(validated)) = (&mut stored.history, declared.validated()) {
        Arc::make_mut(history).share_templates(validated);
    }
    if components.len() > 1 {
        statuses.begin(service, components, &stored.status);
        stored.status = Arc::new(part(service.component(), &stored.status));
    }
    Ok(ServiceState {
        uid: declared.service.metadata().uid.clone(),
        history: stored.history.clone().unwrap_or_default(),
        stored: stored.history,
        status: KeptStatus::from(&*stored.status),
        ..ServiceState::default()
    })
}

/// Stores a changed history before anything runs under a new revision's name.
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
