//! Events as the API server stores them.

use k8s_openapi::api::events::v1::Event as Stored;
use kube::api::{Api, ListParams};
use serde_json::json;
use weir_cluster::ServiceName;
use weir_controller::{Event, EventType, Source, Subject};

use crate::world::World;

fn rolled_back(message: &str) -> Event {
    Event {
        kind: EventType::Warning,
        subject: Subject::Service,
        reason: "RevisionRolledBack",
        message: message.to_owned(),
    }
}

#[tokio::test]
async fn each_message_of_a_reason_is_an_event_with_its_own_count() {
    let world = World::new("events").await;
    world.serve("digits", "", json!({})).await;
    let service = ServiceName::new("events", "digits").unwrap();
    let (errors, slow) = ("4.8 % of its requests failed", "its p99 latency is 16.0 ms");
    // A second process continues the counts of the first.
    for (process, messages) in [("first", vec![errors, slow, errors]), ("second", vec![errors])] {
        let source = world.source(process).await;
        for message in messages {
            let published = source.publish_event(&service, rolled_back(message));
            published.await.unwrap();
        }
    }
    let events: Api<Stored> = Api::namespaced(world.client.clone(), "events");
    let all = events.list(&ListParams::default()).await.unwrap();
    let ours = all.into_iter().filter(|event| event.reason.as_deref() == Some("RevisionRolledBack"));
    let mut counted: Vec<_> = ours
        .map(|event| {
            let count = event.series.map_or(1, |series| series.count);
            (event.note.unwrap_or_default(), count)
        })
        .collect();
    counted.sort();
    assert_eq!(counted, [(errors.to_owned(), 3), (slow.to_owned(), 1)]);
}
