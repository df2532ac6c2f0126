//! Keeping a service's past where the next controller finds it.

use std::sync::Arc;

use weir_cluster::ServiceName;

use super::in_time;
use super::memory::Memory;
use crate::{ControllerError, Declared, Service};

/// A service that is new to this controller.
pub(super) async fn recall(
    declared: &dyn Declared,
    service: &Service,
) -> Result<Memory, ControllerError> {
    let history = in_time("recalling a service", declared.recall(&service.name)).await?;
    Ok(Memory {
        history: history.clone().unwrap_or_default(),
        kept: history,
        status: Arc::new(service.object.status.clone().unwrap_or_default()),
        ..Memory::default()
    })
}

/// Keeps what changed, before anything runs under a new revision's name.
pub(super) async fn keep(
    declared: &dyn Declared,
    service: &ServiceName,
    memory: &mut Memory,
) -> Result<(), ControllerError> {
    if memory.kept.as_ref() == Some(&memory.history) {
        return Ok(());
    }
    let kept = declared.remember(service, &memory.history);
    in_time("remembering a service", kept).await?;
    memory.kept = Some(memory.history.clone());
    Ok(())
}
