//! The status of a service that was published last.

use std::sync::Arc;

use weir_crds::InferenceServiceStatus;

use super::metrics::Readiness;

/// The status of a service that was published last, as JSON: as a value it needs twice the memory, and it is read only when
/// the service is looked at again.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptStatus {
    text: Arc<str>,
    readiness: Readiness,
}

impl KeptStatus {
    /// The status as a value.
    pub(super) fn read(&self) -> InferenceServiceStatus {
        // It was written from one; without any yet it is empty.
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The readiness that it tells of.
    pub(super) fn readiness(&self) -> Readiness {
        self.readiness
    }
}

impl From<&InferenceServiceStatus> for KeptStatus {
    fn from(status: &InferenceServiceStatus) -> Self {
        // Numbers, texts and lists always fit JSON.
        let text = serde_json::to_string(status).unwrap_or_default();
        Self { text: text.into(), readiness: Readiness::of(status) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: &str, reason: &str, stopped: &str) -> InferenceServiceStatus {
        serde_json::from_value(serde_json::json!({
            "observedGeneration": 3,
            "conditions": [
                {"type": "Ready", "status": status, "reason": reason, "message": "it loads"},
                {"type": "Stopped", "status": stopped},
            ],
            "annotations": {"a": "b"},
            "url": "http://digits-default.example.com",
        }))
        .unwrap()
    }

    #[test]
    fn a_status_is_read_as_it_was() {
        let none = KeptStatus::default();
        assert_eq!(none.read(), InferenceServiceStatus::default());
        assert_eq!(none.readiness(), Readiness::Unknown);
        let status = ready("False", "Loading", "False");
        let kept = KeptStatus::from(&status);
        assert_eq!(kept.read(), status);
        assert_eq!(kept.readiness(), Readiness::NotReady);
    }

    #[test]
    fn a_service_that_is_stopped_is_not_one_that_fails() {
        let readiness = |status: &str, stopped: &str| KeptStatus::from(&ready(status, "Because", stopped)).readiness();
        assert_eq!(readiness("False", "True"), Readiness::Stopped);
        assert_eq!(readiness("True", "False"), Readiness::Ready);
        assert_eq!(readiness("Unknown", "False"), Readiness::Unknown);
    }
}
