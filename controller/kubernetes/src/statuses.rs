//! Statuses of services as the API server stores them, and which of them another writer has changed. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use weir_cluster::ServiceName;
use weir_crds::InferenceServiceStatus;

/// Status of a service at one version of its object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WatchedStatus {
    /// Resource version of the object.
    pub(crate) version: u64,
    /// Status as JSON. It is only parsed if the service is new to the controller, or another writer may have changed
    /// it.
    pub(crate) text: Arc<str>,
}

/// Statuses of all services.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    seen: BTreeMap<ServiceName, WatchedStatus>,
    /// Statuses that this process wrote last.
    written: BTreeMap<ServiceName, WrittenStatus>,
    overwritten: Arc<BTreeSet<ServiceName>>,
}

/// Status as the API server answered its write.
#[derive(Clone, Copy, Debug)]
struct WrittenStatus {
    version: u64,
    digest: u64,
}

impl WatchedStatus {
    /// Returns the parsed status. An invalid one counts as empty, and is written again.
    pub(crate) fn read(&self) -> InferenceServiceStatus {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

impl Statuses {
    /// Returns the status of a service as the watch last showed it, and forgets what this process wrote: a controller
    /// that begins to lead continues from the stored status.
    pub(crate) fn load(&mut self, service: &ServiceName) -> InferenceServiceStatus {
        // Another process may have written it since this process did.
        self.written.remove(service);
        self.update_overwritten(service);
        let seen = self.seen.get(service);
        seen.map(WatchedStatus::read).unwrap_or_default()
    }

    /// Records a status as a watch shows it; `None` for a deleted service.
    pub(crate) fn see(&mut self, service: ServiceName, status: Option<WatchedStatus>) {
        match status {
            Some(status) => {
                self.seen.insert(service.clone(), status);
            }
            None => {
                self.seen.remove(&service);
                self.written.remove(&service);
            }
        }
        self.update_overwritten(&service);
    }

    /// Records a written status as the API server returned it.
    pub(crate) fn wrote(&mut self, service: &ServiceName, status: &WatchedStatus) {
        let written = WrittenStatus { version: status.version, digest: digest(&status.read()) };
        self.written.insert(service.clone(), written);
        self.update_overwritten(service);
    }

    /// Returns the services whose status differs from the one that was written.
    pub(crate) fn overwritten(&self) -> Arc<BTreeSet<ServiceName>> {
        self.overwritten.clone()
    }

    fn update_overwritten(&mut self, service: &ServiceName) {
        let (seen, written) = (self.seen.get(service), self.written.get(service));
        let is_overwritten = seen
            .zip(written)
            .is_some_and(|(seen, written)| seen.version > written.version && digest(&seen.read()) != written.digest);
        if is_overwritten != self.overwritten.contains(service) {
            let overwritten = Arc::make_mut(&mut self.overwritten);
            if is_overwritten {
                overwritten.insert(service.clone());
            } else {
                overwritten.remove(service);
            }
        }
    }
}

/// Returns a digest of a status, which is valid within this process only.
fn digest(status: &InferenceServiceStatus) -> u64 {
    let mut hasher = DefaultHasher::new();
    // A status always fits JSON.
    serde_json::to_string(status).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(url: &str) -> InferenceServiceStatus {
        InferenceServiceStatus { url: Some(url.to_owned()), ..InferenceServiceStatus::default() }
    }

    fn at(version: u64, url: &str) -> WatchedStatus {
        let text = serde_json::to_string(&status(url)).unwrap().into();
        WatchedStatus { version, text }
    }

    fn seen(version: u64, url: &str) -> Option<WatchedStatus> {
        Some(at(version, url))
    }

    #[test]
    fn a_status_counts_as_overwritten_until_it_is_written_again() {
        let mut statuses = Statuses::default();
        let service = ServiceName::new("team", "digits").unwrap();
        let is_overwritten = |statuses: &Statuses| statuses.overwritten().contains(&service);
        statuses.see(service.clone(), seen(3, "theirs"));
        assert!(!is_overwritten(&statuses), "nothing was written yet");
        statuses.wrote(&service, &at(5, "ours"));
        assert!(!is_overwritten(&statuses), "a watch may be late");
        statuses.see(service.clone(), seen(5, "ours"));
        statuses.see(service.clone(), seen(6, "ours"));
        assert!(!is_overwritten(&statuses), "something else was written");
        statuses.see(service.clone(), seen(7, "theirs"));
        assert!(is_overwritten(&statuses));
        statuses.wrote(&service, &at(8, "ours"));
        assert!(!is_overwritten(&statuses));
        statuses.see(service.clone(), seen(9, "theirs"));
        assert_eq!(statuses.load(&service), status("theirs"));
        assert!(!is_overwritten(&statuses), "a new leader has written nothing");
    }

    #[test]
    fn a_removed_or_invalid_status_counts_as_overwritten_unless_its_service_is_gone() {
        let mut statuses = Statuses::default();
        let service = ServiceName::new("team", "digits").unwrap();
        for text in ["", "null", "{\"url\": 3}"] {
            statuses.wrote(&service, &at(5, "ours"));
            let text = text.into();
            statuses.see(service.clone(), Some(WatchedStatus { version: 6, text }));
            assert!(statuses.overwritten().contains(&service));
            statuses.see(service.clone(), None);
            assert!(statuses.overwritten().is_empty());
        }
    }
}
