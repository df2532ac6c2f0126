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
use crate::status::{ComponentStatuses, merge, parts};

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
    /// Continues from the stored status of a service with these components, which an earlier controller published. Each
    /// component keeps its part until its own status is published.
    pub(super) fn begin(&self, service: &ServiceName, declared: &[ComponentKind], stored: &InferenceServiceStatus) {
        let mut all = self.0.lock();
        let composed = all.entry(service.whole());
        composed.or_insert_with(|| {
            let components = parts(declared, stored);
            Arc::new(tokio::sync::Mutex::new(ComposedStatus { components, published: stored.clone() }))
        });
    }

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

#[cfg(test)]
mod tests {
    use weir_crds::inference_service::{Condition, ConditionStatus};

    use super::*;
    use crate::files::Files;
    use crate::manifest::validate::Platform;

    const COMPOSED: &str = "
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: digits}
spec:
  predictor: {containers: [{name: p, image: x}]}
  transformer: {containers: [{name: t, image: x}]}
";

    fn ready() -> InferenceServiceStatus {
        let condition = |kind: &str| serde_json::json!({"type": kind, "status": "True", "reason": "Ready"});
        let conditions = [Condition::READY, Condition::PREDICTOR_READY, Condition::INGRESS_READY].map(condition);
        serde_json::from_value(serde_json::json!({"observedGeneration": 1, "conditions": conditions})).unwrap()
    }

    #[tokio::test]
    async fn a_new_controller_keeps_the_stored_status_of_a_component_until_it_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("digits.yaml"), COMPOSED).unwrap();
        let files = Files::open(&[folder.path().to_owned()], Platform::new("example.com")).unwrap();
        let declaration = Source::watch(&files).borrow().clone();
        let names = [ComponentKind::Predictor, ComponentKind::Transformer];
        let predictor = declaration.services.keys().next().unwrap().whole();
        let both = names.map(|component| predictor.of_component(component).unwrap());
        let former = ComposedStatuses::default();
        for component in &both {
            let none = InferenceServiceStatus::default();
            former.publish(&files, &declaration, (component, none, ready())).await.unwrap();
        }
        let stored = InferenceServiceStatus::clone(&files.statuses().borrow()[&predictor]);
        assert_eq!(stored.condition(Condition::READY).unwrap().status, ConditionStatus::True);

        let next = ComposedStatuses::default();
        next.begin(&both[1], &names, &stored);
        let change = (&both[1], InferenceServiceStatus::default(), ready());
        let published = next.publish(&files, &declaration, change).await.unwrap();
        assert_eq!((published.before, published.next), (stored.clone(), stored));
    }
}
