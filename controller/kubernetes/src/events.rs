//! Events of a service, as the API server stores them: one for each message, which counts its repetitions.
//!
//! The name of an Event is made of all that it says, so that the same message finds the Event that a process before wrote, and
//! another message of the same reason gets an Event of its own.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event as Note, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use weir_cluster::Identity;
use weir_controller::{Event, EventType, Service};

/// Longest note that the API server takes, in bytes.
const MAX_NOTE: usize = 1024;

/// The action of every event: what the controller was doing.
const ACTION: &str = "Reconcile";

/// Writes Events under the name of a controller and its process.
#[derive(Clone)]
pub(crate) struct EventWriter {
    client: Client,
    controller: &'static str,
    process: String,
}

impl EventWriter {
    /// A writer of Events. `process` tells the processes of a controller apart, such as the name of a pod.
    pub(crate) fn new(client: Client, controller: &'static str, process: &str) -> Self {
        Self { client, controller, process: process.to_owned() }
    }

    /// Writes an Event about a service. One with the same message that is there already counts one more.
    ///
    /// # Errors
    /// Those of the API server.
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

/// Counts an Event once more. One that has expired meanwhile is not missed.
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

/// The series of an Event that happened once more. The Event without a series is the first.
fn repeated(before: &Note, now: Timestamp) -> EventSeries {
    let count = before.series.as_ref().map_or(1, |series| series.count);
    EventSeries { count: count.saturating_add(1), last_observed_time: MicroTime(now) }
}

/// The object that an event is about.
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

/// The event in the API server's form, without its time and its writer.
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
    fn each_message_of_one_reason_has_an_event_of_its_own() {
        let name = |uid, message| rolled_back(uid, message).metadata.name.unwrap();
        let errors = name("1", "4.8 % of its requests failed");
        assert_eq!(errors, name("1", "4.8 % of its requests failed"));
        assert_ne!(errors, name("1", "its p99 latency is 16.0 ms"));
        assert_ne!(errors, name("2", "4.8 % of its requests failed"));
        assert!(errors.starts_with("digits."), "{errors}");
    }

    #[test]
    fn an_event_that_is_repeated_counts_from_two() {
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
