//! Statuses of services with several components, which are published as one.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_cluster::{ComponentKind, ServiceName};
use weir_crds::InferenceServiceStatus;

use super::deadline::in_time;
use crate::declaration::Declaration;
use crate::error::ControllerError;
use crate::source::Source;
use crate::status::{ComponentStatuses, merge};

/// Last statuses of the components of each service with several. Clones share them.
#[derive(Clone, Default)]
pub(super) struct ComposedStatuses(Arc<Mutex<BTreeMap<ServiceName, Arc<tokio::sync::Mutex<ComposedStatus>>>>>);

/// Statuses of one service's components, and the merged one that was published last.
#[derive(Default)]
struct ComposedStatus {
    components: ComponentStatuses,
    published: InferenceServiceStatus,
}

/// Status of a whole service before and after a publication.
pub(super) struct Published {
    pub(super) before: InferenceServiceStatus,
    pub(super) next: InferenceServiceStatus,
}

impl ComposedStatuses {
    /// Publishes the status of a component, merged with those of the service's other components. The component's former
    /// status is `before`.
    ///
    /// # Errors
    /// The errors of the source.
    pub(super) async fn publish(
        &self,
        source: &dyn Source,
        declaration: &Declaration,
        (service, before, next): (&ServiceName, InferenceServiceStatus, InferenceServiceStatus),
    ) -> Result<Published, ControllerError> {
        let declared = components(declaration, service);
        if declared.len() < 2 {
            self.0.lock().remove(&service.whole());
            send(source, service, &next).await?;
            return Ok(Published { before, next });
        }
        let composed = self.0.lock().entry(service.whole()).or_default().clone();
        // The lock is held until the status is stored, so that no component's task stores an older one later.
        let mut composed = composed.lock().await;
        composed.components.insert(service.component(), Some(next));
        composed.send(source, service, &declared).await
    }

    /// Publishes the status of a service that has lost a component, or forgets a service that is gone.
    ///
    /// # Errors
    /// The errors of the source.
    pub(super) async fn remove(
        &self,
        source: &dyn Source,
        declaration: &Declaration,
        service: &ServiceName,
    ) -> Result<(), ControllerError> {
        let declared = components(declaration, service);
        let composed = match declared.first() {
            Some(_) => self.0.lock().get(&service.whole()).cloned(),
            None => {
                self.0.lock().remove(&service.whole());
                None
            }
        };
        let Some(composed) = composed else { return Ok(()) };
        composed.lock().await.send(source, service, &declared).await.map(drop)
    }
}

impl ComposedStatus {
    async fn send(
        &mut self,
        source: &dyn Source,
        service: &ServiceName,
        declared: &[ComponentKind],
    ) -> Result<Published, ControllerError> {
        self.components.retain(|component, _| declared.contains(component));
        for component in declared {
            self.components.entry(*component).or_default();
        }
        let next = match &self.components.iter().next() {
            Some((_, Some(only))) if declared.len() == 1 => only.clone(),
            Some(_) | None => merge(&self.components),
        };
        send(source, service, &next).await?;
        let before = std::mem::replace(&mut self.published, next.clone());
        Ok(Published { before, next })
    }
}

/// Returns the declared components of a service.
pub(super) fn components(declaration: &Declaration, service: &ServiceName) -> Vec<ComponentKind> {
    declaration.components(service).map(|declared| declared.service.name.component()).collect()
}

async fn send(
    source: &dyn Source,
    service: &ServiceName,
    status: &InferenceServiceStatus,
) -> Result<(), ControllerError> {
    let whole = service.whole();
    let published = source.publish_status(&whole, Arc::new(status.clone()));
    in_time("publishing the status", published).await
}
