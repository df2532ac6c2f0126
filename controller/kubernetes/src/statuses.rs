//! The statuses of services as the API server has them, and which of them somebody else has changed. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use weir_cluster::ServiceName;
use weir_crds::InferenceServiceStatus;

/// The status of a service at one version of its object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SeenStatus {
    /// Version of the object.
    pub(crate) version: u64,
    /// The status as JSON: it is read only where a service is new to the controller, or another's write is suspected.
    pub(crate) text: Arc<str>,
}

/// The statuses of all services.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    seen: BTreeMap<ServiceName, SeenStatus>,
    /// What this process wrote last of each.
    written: BTreeMap<ServiceName, WrittenStatus>,
    overwritten: Arc<BTreeSet<ServiceName>>,
}

/// A status as the API server answered to its write.
#[derive(Clone, Copy, Debug)]
struct WrittenStatus {
    version: u64,
    digest: u64,
}

impl SeenStatus {
    /// The status as a value; one that cannot be read is written anew.
    pub(crate) fn read(&self) -> InferenceServiceStatus {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

impl Statuses {
    /// The status of a service that this process is to go on with.
    pub(crate) fn load(&mut self, service: &ServiceName) -> InferenceServiceStatus {
        // Others may have written it since this process did.
        self.written.remove(service);
        self.judge(service);
        let seen = self.seen.get(service);
        seen.map(SeenStatus::read).unwrap_or_default()
    }

    /// Takes in a status as a watch shows it; unset: the service is gone.
    pub(crate) fn see(&mut self, service: ServiceName, status: Option<SeenStatus>) {
        match status {
            Some(status) => {
                self.seen.insert(service.clone(), status);
            }
            None => {
                self.seen.remove(&service);
                self.written.remove(&service);
            }
        }
        self.judge(&service);
    }

    /// Notes a status that was written, as the API server has answered.
    pub(crate) fn wrote(&mut self, service: &ServiceName, status: &SeenStatus) {
        let written = WrittenStatus { version: status.version, digest: digest(&status.read()) };
        self.written.insert(service.clone(), written);
        self.judge(service);
    }

    /// The services whose status is not the one that was written.
    pub(crate) fn overwritten(&self) -> Arc<BTreeSet<ServiceName>> {
        self.overwritten.clone()
    }

    fn judge(&mut self, service: &ServiceName) {
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

/// Digest of a status, for this process.
fn digest(status: &InferenceServiceStatus) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Numbers, texts and lists always fit JSON.
    serde_json::to_string(status).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(url: &str) -> InferenceServiceStatus {
        InferenceServiceStatus { url: Some(url.to_owned()), ..InferenceServiceStatus::default() }
    }

    fn at(version: u64, url: &str) -> SeenStatus {
        let text = serde_json::to_string(&status(url)).unwrap().into();
        SeenStatus { version, text }
    }

    fn seen(version: u64, url: &str) -> Option<SeenStatus> {
        Some(at(version, url))
    }

    #[test]
    fn a_status_that_another_has_written_is_told_until_it_is_written_again() {
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
        assert!(!is_overwritten(&statuses), "who begins has written nothing");
    }

    #[test]
    fn one_that_is_taken_away_or_cannot_be_read_is_told_and_one_of_no_service_is_not() {
        let mut statuses = Statuses::default();
        let service = ServiceName::new("team", "digits").unwrap();
        for text in ["", "null", "{\"url\": 3}"] {
            statuses.wrote(&service, &at(5, "ours"));
            let text = text.into();
            statuses.see(service.clone(), Some(SeenStatus { version: 6, text }));
            assert!(statuses.overwritten().contains(&service));
            statuses.see(service.clone(), None);
            assert!(statuses.overwritten().is_empty());
        }
    }
}
