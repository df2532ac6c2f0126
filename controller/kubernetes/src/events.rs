//! Events of a service in the form in which the API server stores them: one Event per message, with a count of
//! repetitions.
//!
//! The name of an Event is derived from its whole content. So the same message finds the Event that an earlier process
//! wrote, and another message with the same reason gets an Event of its own.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event as Note, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use weir_cluster::Identity;
use weir_controller::{Event, EventType, Service};

/// Longest note that the API server accepts, in bytes.
const MAX_NOTE: usize = 1024;

/// Action of every Event: what the controller was doing.
const ACTION: &str = "Reconcile";

/// Writer of Events under the name of a controller and its process.
#[derive(Clone)]
pub(crate) struct EventWriter {
    client: Client,
    controller: &'static str,
    process: String,
}

impl EventWriter {
    /// Returns a writer of Events. `process` identifies this process of the controller, such as the name of its pod.
    pub(crate) fn new(client: Client, controller: &'static str, process: &str) -> Self {
        Self { client, controller, process: process.to_owned() }
    }

    /// Writes an Event about a service. If one with the same message exists, its count grows instead.
    ///
    /// # Errors
    /// The errors of the API server.
    pub(crate) async fn write(&self, service: &Service, event: Event) -> Result<(), kube::Error> {
        let now = Timestamp::now();
        let note = Note {
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.controller.to_owned()),
            reporting_instance: Some(self.process.clone()),
            ..note(reference(service), event)
        };
        let namespace = note.metadata.namespace.clone().unwrap_or_default();
        let events: Api<Note> = Api::namespaced(self.client.clone(), &namespace);
        match events.create(&PostParams::default(), &note).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => repeat(&events, &note, now).await,
            written => written.map(drop),
        }
    }
}

/// Increments the count of an Event. Does nothing if the API server has expired the Event meanwhile.
async fn repeat(events: &Api<Note>, note: &Note, now: Timestamp) -> Result<(), kube::Error> {
    let name = note.metadata.name.as_deref().unwrap_or_default();
    let Some(before) = events.get_opt(name).await? else {
        return Ok(());
    };
    let series = Patch::Merge(json!({"series": repeated(&before, now)}));
    let counted = events.patch(name, &PatchParams::default(), &series).await;
    match counted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        counted => counted.map(drop),
    }
}

/// Returns the `series` of an Event after one more occurrence. An Event without a series has occurred once, so its
/// series starts at 2.
fn repeated(before: &Note, now: Timestamp) -> EventSeries {
    let count = before.series.as_ref().map_or(1, |series| series.count);
    EventSeries { count: count.saturating_add(1), last_observed_time: MicroTime(now) }
}

/// Returns a reference to the object that an Event is about.
fn reference(service: &Service) -> ObjectReference {
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

/// Returns the event in the API server's form, without its time and its writer.
fn note(regarding: ObjectReference, event: Event) -> Note {
    let type_ = match event.kind {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    let text = shortened(event.message);
    let hash = Identity::of_value(json!([regarding.uid, type_, event.reason, text]));
    let name = regarding.name.as_deref().unwrap_or_default();
    Note {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{hash}")),
            namespace: regarding.namespace.clone(),
            ..ObjectMeta::default()
        },
        type_: Some(type_.to_owned()),
        reason: Some(event.reason.to_owned()),
        note: Some(text),
        action: Some(ACTION.to_owned()),
        regarding: Some(regarding),
        ..Note::default()
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
    use weir_controller::Subject;

    use super::*;

    fn rolled_back(uid: &str, message: &str) -> Note {
        let regarding = ObjectReference {
            name: Some("digits".to_owned()),
            namespace: Some("team".to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let event = Event {
            kind: EventType::Warning,
            subject: Subject::Service,
            reason: "RevisionRolledBack",
            message: message.to_owned(),
        };
        note(regarding, event)
    }

    #[test]
    fn each_message_of_a_reason_has_its_own_event() {
        let name = |uid, message| rolled_back(uid, message).metadata.name.unwrap();
        let errors = name("1", "4.8 % of its requests failed");
        assert_eq!(errors, name("1", "4.8 % of its requests failed"));
        assert_ne!(errors, name("1", "its p99 latency is 16.0 ms"));
        assert_ne!(errors, name("2", "4.8 % of its requests failed"));
        assert!(errors.starts_with("digits."), "{errors}");
    }

    #[test]
    fn a_repeated_event_counts_from_two() {
        let mut event = rolled_back("1", "slow");
        let now = Timestamp::now();
        for count in [2, 3] {
            event.series = Some(repeated(&event, now));
            assert_eq!(event.series.as_ref().map(|series| series.count), Some(count));
        }
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        for length in [0, 1, 500, 512, 513, 2000] {
            let short = shortened("é".repeat(length));
            assert!(short.len() <= MAX_NOTE);
            assert_eq!(short.ends_with('…'), 2 * length > MAX_NOTE, "{length}");
        }
    }
}
