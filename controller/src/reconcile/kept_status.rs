//! The status of a service that was published last.

use std::sync::Arc;

use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::{Condition, ConditionStatus};

/// The status of a service that was published last, as JSON: as a value it needs twice the memory, and it is read only when
/// the service is looked at again.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptStatus {
    text: Arc<str>,
    ready: Option<ConditionStatus>,
}

impl KeptStatus {
    /// The status as a value.
    pub(super) fn read(&self) -> InferenceServiceStatus {
        // It was written from one; without any yet it is empty.
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The status of its condition `Ready`; unset before there is one.
    pub(super) fn ready(&self) -> Option<ConditionStatus> {
        self.ready
    }
}

impl From<&InferenceServiceStatus> for KeptStatus {
    fn from(status: &InferenceServiceStatus) -> Self {
        // Numbers, texts and lists always fit JSON.
        let text = serde_json::to_string(status).unwrap_or_default();
        Self {
            text: text.into(),
            ready: status.condition(Condition::READY).map(|ready| ready.status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_it_was() {
        assert_eq!(
            KeptStatus::default().read(),
            InferenceServiceStatus::default()
        );
        let status: InferenceServiceStatus = serde_json::from_value(serde_json::json!({
            "observedGeneration": 3,
            "conditions": [{"type": "Ready", "status": "False", "reason": "Loading", "message": "it loads"}],
            "annotations": {"a": "b"},
            "url": "http://digits-default.example.com",
        }))
        .unwrap();
        let kept = KeptStatus::from(&status);
        assert_eq!(kept.read(), status);
        assert_eq!(kept.ready(), Some(ConditionStatus::False));
    }
}
