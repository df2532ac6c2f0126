//! What others change or delete of the objects that `apply` wrote. Pure.
//!
//! The API server keeps, with each object, the fields that a manager holds. Whoever overwrites one of them takes it over,
//! so the controller's entry tells, whatever else is written: numbers of replicas, states, annotations of others.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use kube::{Resource, ResourceExt};
use weir_cluster::ServiceName;

use crate::generation::generation;
use crate::objects::{CONTROLLER, service_of};

/// Kind, namespace and name of an object.
type Id = (String, String, String);

/// The objects of a service that `apply` wrote last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WrittenObjects(BTreeMap<Id, Mark>);

/// An object at one version.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mark {
    version: u64,
    /// Hash of the fields that the controller holds; unset: the object is gone.
    held: Option<u64>,
}

/// The objects as they were written, and as they are.
#[derive(Debug, Default)]
pub(crate) struct Drift {
    written: BTreeMap<ServiceName, WrittenObjects>,
    seen: BTreeMap<Id, Mark>,
    drifted: BTreeSet<ServiceName>,
}

impl WrittenObjects {
    /// Adds an object as the API server stored it.
    pub(crate) fn add<K: Resource<DynamicType = ()>>(&mut self, stored: &K) {
        self.0.insert(id(stored), mark(stored));
    }
}

impl Drift {
    /// Notes what was written of a service; unset: it was forgotten.
    pub(crate) fn wrote(&mut self, service: &ServiceName, objects: Option<WrittenObjects>) {
        let before = match objects {
            Some(objects) => self.written.insert(service.clone(), objects),
            None => self.written.remove(service),
        };
        for id in before.iter().flat_map(|before| before.0.keys()) {
            self.forget_gone(service, id);
        }
        self.judge(service);
    }

    /// Drops an object that is gone, unless it was written and is missed.
    fn forget_gone(&mut self, service: &ServiceName, id: &Id) {
        let written = self.written.get(service);
        let is_written = written.is_some_and(|objects| objects.0.contains_key(id));
        let is_gone = self.seen.get(id).is_some_and(|mark| mark.held.is_none());
        if is_gone && !is_written {
            self.seen.remove(id);
        }
    }

    /// Takes in an object as it is now.
    pub(crate) fn see<K: Resource<DynamicType = ()>>(&mut self, object: &K) {
        self.mark(object, mark(object));
    }

    /// Takes in that an object is gone; `object` is how it was last.
    pub(crate) fn miss<K: Resource<DynamicType = ()>>(&mut self, object: &K) {
        let gone = Mark {
            version: generation(object),
            held: None,
        };
        self.mark(object, gone);
    }

    /// The services that are not as they were applied.
    pub(crate) fn services(&self) -> &BTreeSet<ServiceName> {
        &self.drifted
    }

    fn mark<K: Resource<DynamicType = ()>>(&mut self, object: &K, mark: Mark) {
        let Some(service) = service_of(object) else {
            return;
        };
        let id = id(object);
        self.seen.insert(id.clone(), mark);
        self.forget_gone(&service, &id);
        self.judge(&service);
    }

    fn judge(&mut self, service: &ServiceName) {
        let written = self.written.get(service);
        let is_drifted = written.is_some_and(|objects| {
            let mut objects = objects.0.iter();
            objects.any(|(id, written)| {
                self.seen
                    .get(id)
                    .is_some_and(|seen| is_other(*seen, *written))
            })
        });
        if is_drifted {
            self.drifted.insert(service.clone());
        } else {
            self.drifted.remove(service);
        }
    }
}

/// Tells an object that differs from what was written; one from before that does not count.
fn is_other(seen: Mark, written: Mark) -> bool {
    seen.version >= written.version && seen.held != written.held
}

fn id<K: Resource<DynamicType = ()>>(object: &K) -> Id {
    let namespace = object.namespace().unwrap_or_default();
    (K::kind(&()).into_owned(), namespace, object.name_any())
}

fn mark<K: Resource<DynamicType = ()>>(object: &K) -> Mark {
    let mut hasher = DefaultHasher::new();
    let entries = object.managed_fields().iter();
    for entry in entries.filter(|entry| entry.manager.as_deref() == Some(CONTROLLER)) {
        let fields = entry.fields_v1.as_ref().map(|fields| fields.0.to_string());
        fields.hash(&mut hasher);
    }
    Mark {
        version: generation(object),
        held: Some(hasher.finish()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    use super::*;

    fn object(version: u64, held: &str) -> Service {
        let value = json!({
            "metadata": {
                "name": "digits", "namespace": "team", "resourceVersion": version.to_string(),
                "labels": {"serving.kserve.io/inferenceservice": "digits"},
                "managedFields": [
                    {"manager": "weir-controller", "fieldsV1": {(held): {}}},
                    {"manager": "kubectl", "fieldsV1": {(format!("f:v{version}")): {}}},
                ],
            },
        });
        serde_json::from_value(value).unwrap()
    }

    fn drift() -> (Drift, ServiceName) {
        let service = ServiceName::new("team", "digits").unwrap();
        let mut written = WrittenObjects::default();
        written.add(&object(5, "f:spec"));
        let mut drift = Drift::default();
        drift.see(&object(3, "f:nothing"));
        drift.wrote(&service, Some(written));
        (drift, service)
    }

    #[test]
    fn fields_that_are_taken_over_are_told_and_others_are_not() {
        let (mut drift, service) = drift();
        assert!(drift.services().is_empty(), "an older state does not count");
        drift.see(&object(5, "f:spec"));
        drift.see(&object(6, "f:spec"));
        assert!(drift.services().is_empty(), "what others add is theirs");
        drift.see(&object(7, "f:less"));
        assert!(drift.services().contains(&service));
        let mut again = WrittenObjects::default();
        again.add(&object(8, "f:spec"));
        drift.wrote(&service, Some(again));
        assert!(drift.services().is_empty(), "it was put back");
    }

    #[test]
    fn an_object_that_is_gone_is_told_until_the_service_is() {
        let (mut drift, service) = drift();
        drift.miss(&object(9, "f:spec"));
        assert!(drift.services().contains(&service));
        drift.wrote(&service, None);
        assert!(drift.services().is_empty());
        drift.miss(&object(11, "f:spec"));
        assert!(drift.seen.is_empty(), "nothing is kept of what is gone");
    }
}
