//! Services that were deleted with `kubectl delete --cascade=orphan`, whose objects are to stay. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::core::DynamicObject;
use weir_cluster::ServiceName;

/// Finalizer with which the API server keeps an object until its dependents have lost it as an owner.
const ORPHAN: &str = "orphan";

/// UIDs of InferenceServices that were deleted with orphaned objects, by service.
#[derive(Debug, Default)]
pub(crate) struct Orphans(BTreeMap<ServiceName, String>);

impl Orphans {
    /// Records an object as a watch shows it.
    pub(crate) fn see(&mut self, object: &DynamicObject) {
        let is_deleted = object.metadata.deletion_timestamp.is_some();
        let mut finalizers = object.finalizers().iter();
        if !is_deleted || !finalizers.any(|finalizer| finalizer == ORPHAN) {
            return;
        }
        let namespace = object.namespace().unwrap_or_default();
        if let (Ok(name), Some(uid)) = (ServiceName::new(&namespace, &object.name_any()), object.uid()) {
            self.0.insert(name, uid);
        }
    }

    /// Moves the services that another value has recorded into this one.
    pub(crate) fn extend(&mut self, others: &mut Self) {
        self.0.append(&mut others.0);
    }

    /// True if the object of this UID was deleted with orphaned objects; without a UID, if any object of the service
    /// was.
    pub(crate) fn contains(&self, service: &ServiceName, uid: Option<&str>) -> bool {
        let orphaned = self.0.get(service);
        orphaned.is_some_and(|orphaned| uid.is_none_or(|uid| uid == orphaned))
    }

    /// Drops the record of a deleted service.
    pub(crate) fn forget(&mut self, service: &ServiceName) {
        self.0.remove(service);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(deleted: Option<&str>, finalizers: &[&str]) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {
                "name": "digits", "namespace": "team", "uid": "u1",
                "deletionTimestamp": deleted, "finalizers": finalizers,
            },
        }))
        .unwrap()
    }

    #[test]
    fn only_a_deletion_with_the_orphan_finalizer_leaves_orphans() {
        let service = ServiceName::new("team", "digits").unwrap();
        let time = Some("2026-01-02T03:04:05Z");
        let seen = |object: &DynamicObject| {
            let mut orphans = Orphans::default();
            orphans.see(object);
            orphans
        };
        let orphans = seen(&object(time, &["example.com/x", "orphan"]));
        assert!(orphans.contains(&service, Some("u1")) && orphans.contains(&service, None));
        assert!(!orphans.contains(&service, Some("u2")), "a later object of the same name");
        for other in [object(time, &["foregroundDeletion"]), object(None, &["orphan"])] {
            assert!(!seen(&other).contains(&service, None));
        }
    }
}
