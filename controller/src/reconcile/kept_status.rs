//! Cache of the last published status of a service.

use std::sync::Arc;

use weir_crds::InferenceServiceStatus;

use super::metrics::Readiness;

/// Last published status of a service, as JSON: a parsed status needs twice the memory, and it is only read when the
/// service is reconciled again.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptStatus {
    text: Arc<str>,
    readiness: Readiness,
}

impl KeptStatus {
    /// Returns the parsed status.
    pub(super) fn read(&self) -> InferenceServiceStatus {
        // The text is empty before the first status, and otherwise comes from a valid one.
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Returns the readiness that the status states.
    pub(super) fn readiness(&self) -> Readiness {
        self.readiness
    }
}

impl From<&InferenceServiceStatus> for KeptStatus {
    fn from(status: &InferenceServiceStatus) -> Self {
        // A status always fits JSON.
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
    fn a_status_is_read_as_it_was_stored() {
        let none = KeptStatus::default();
        assert_eq!(none.read(), InferenceServiceStatus::default());
        assert_eq!(none.readiness(), Readiness::Unknown);
        let status = ready("False", "Loading", "False");
        let kept = KeptStatus::from(&status);
        assert_eq!(kept.read(), status);
        assert_eq!(kept.readiness(), Readiness::NotReady);
    }

    #[test]
    fn a_stopped_service_is_not_a_failing_one() {
        let readiness = |status: &str, stopped: &str| KeptStatus::from(&ready(status, "Because", stopped)).readiness();
        assert_eq!(readiness("False", "True"), Readiness::Stopped);
        assert_eq!(readiness("True", "False"), Readiness::Ready);
        assert_eq!(readiness("Unknown", "False"), Readiness::Unknown);
    }
}
