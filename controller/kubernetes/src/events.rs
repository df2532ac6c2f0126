//! Events of a service, as the API server stores them.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event as Note, EventType as NoteType};
use weir_controller::{Event, EventType, Service};

/// Longest note that the API server takes, in bytes.
const MAX_NOTE: usize = 1024;

/// The action of every event: what the controller was doing.
const ACTION: &str = "Reconcile";

/// The object that an event is about.
pub(crate) fn reference(service: &Service) -> ObjectReference {
    let metadata = service.metadata();
    ObjectReference {
        api_version: Some("serving.kserve.io/v1beta1".to_owned()),
        kind: Some("InferenceService".to_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The event in the API server's form.
pub(crate) fn note(event: Event) -> Note {
    Note {
        type_: match event.kind {
            EventType::Normal => NoteType::Normal,
            EventType::Warning => NoteType::Warning,
        },
        reason: event.reason.to_owned(),
        note: Some(shortened(event.message)),
        action: ACTION.to_owned(),
        secondary: None,
    }
}

fn shortened(mut message: String) -> String {
    if message.len() > MAX_NOTE {
        let end = message.floor_char_boundary(MAX_NOTE - '…'.len_utf8());
        message.truncate(end);
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        for length in [0, 1, 500, 512, 513, 2000] {
            let short = shortened("é".repeat(length));
            assert!(short.len() <= MAX_NOTE);
            assert_eq!(short.ends_with('…'), 2 * length > MAX_NOTE, "{length}");
        }
    }
}
