//! Cache of ControllerRevisions that were stored or listed, kept until their service is applied. The data of a
//! ControllerRevision never change, so it need not be read again.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use parking_lot::Mutex;
use weir_cluster::{RevisionName, ServiceName};

use crate::objects::named_revision_of;

/// ControllerRevisions by service, as JSON text: parsed values need ten times the memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRevisions(Arc<Mutex<BTreeMap<ServiceName, Texts>>>);

type Texts = BTreeMap<RevisionName, Box<[u8]>>;

impl KeptRevisions {
    /// Adds a ControllerRevision as the API server stores it.
    pub(crate) fn put(&self, object: &ControllerRevision) {
        let Some(revision) = named_revision_of(object) else {
            return;
        };
        let mut object = object.clone();
        object.metadata.managed_fields = None;
        let Ok(text) = serde_json::to_vec(&object) else {
            return;
        };
        let mut all = self.0.lock();
        let of_service = all.entry(revision.service().clone()).or_default();
        of_service.insert(revision, text.into());
    }

    /// Removes and returns the ControllerRevisions of a service. A later caller reads them from the API server.
    pub(crate) fn take(&self, service: &ServiceName) -> BTreeMap<RevisionName, ControllerRevision> {
        let texts = self.0.lock().remove(service).unwrap_or_default();
        let read = |(name, text): (_, Box<[u8]>)| Some((name, serde_json::from_slice(&text).ok()?));
        texts.into_iter().filter_map(read).collect()
    }

    /// Drops the ControllerRevisions of a deleted service.
    pub(crate) fn forget(&self, service: &ServiceName) {
        self.0.lock().remove(service);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_revision_is_taken_once_and_unchanged() {
        let object: ControllerRevision = serde_json::from_value(json!({
            "metadata": {
                "name": "digits-predictor-00001", "namespace": "team", "resourceVersion": "7",
                "labels": {"weir.dev/revision": "digits-predictor-00001"},
            },
            "revision": 1,
            "data": {"identity": "0123"},
        }))
        .unwrap();
        let revision = named_revision_of(&object).unwrap();
        let kept = KeptRevisions::default();
        kept.put(&object);
        let mut taken = kept.take(revision.service());
        assert_eq!(taken.remove(&revision), Some(object));
        assert!(kept.take(revision.service()).is_empty());
    }
}
