//! Tests of bodies that are forwarded while they arrive.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use weir_cluster::{Activity, ReplicaLoad};

use crate::client::{connect, post};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, World};

/// A replica that sends events, and a client that has requested them.
struct Stream {
    world: World,
    replica: TestReplica,
    events: mpsc::Sender<Bytes>,
    client: http1::SendRequest<Full<Bytes>>,
    asked: JoinHandle<hyper::Result<Response<Incoming>>>,
}

async fn asked() -> Stream {
    let (events, receiver) = mpsc::channel(1);
    let behaviour = Behaviour::Events(Arc::new(Mutex::new(Some(receiver))));
    let (world, replica) = World::with(behaviour).await;
    let mut client = connect::<Full<Bytes>>(world.address()).await;
    let asked = tokio::spawn(client.send_request(post(HOST, "/", "")));
    replica.seen.until_busy(1).await;
    Stream { world, replica, events, client, asked }
}

#[tokio::test]
async fn events_pass_through_one_by_one() {
    let Stream { world, replica: _replica, events, client: _client, asked } = asked().await;
    let mut response = None;
    let mut asked = Some(asked);
    for number in 0..5 {
        let event = Bytes::from(format!("data: {number}\n\n"));
        events.send(event.clone()).await.unwrap();
        if let Some(asked) = asked.take() {
            response = Some(asked.await.unwrap().unwrap().into_body());
        }
        let frame = response.as_mut().unwrap().frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), event);
    }
    world.activity(1, |activity| activity.in_flight == 1).await;
    drop(events);
    assert!(response.unwrap().frame().await.is_none());
    world.activity(1, |a| a.in_flight == 0 && a.succeeded == 1).await;
}

#[tokio::test]
async fn the_times_of_a_streams_pieces_are_histograms() {
    let Stream { world, replica: _replica, events, client: _client, asked } = asked().await;
    let metrics = || {
        let mut registry = weir_ops::registry::Registry::default();
        world.gateways[0].gateway.register(&mut registry);
        weir_ops::registry::text(&registry).unwrap()
    };
    let count = |name: &str| {
        let labels = "namespace=\"default\",service=\"digits\",revision=\"digits-predictor-00001\"";
        let start = format!("{name}_count{{{labels}}} ");
        metrics().lines().find_map(|line| line.strip_prefix(&start)?.parse::<u64>().ok())
    };
    assert_eq!(count("weir_revision_first_byte_seconds"), Some(0));
    events.send(Bytes::from("data: 0\n\n")).await.unwrap();
    let mut body = asked.await.unwrap().unwrap().into_body();
    for number in 0..4 {
        if number > 0 {
            events.send(Bytes::from("data: 1\n\n")).await.unwrap();
        }
        body.frame().await.unwrap().unwrap();
    }
    drop(events);
    body.collect().await.unwrap();
    assert_eq!(count("weir_revision_first_byte_seconds"), Some(1));
    assert_eq!(count("weir_revision_chunk_interval_seconds"), Some(3));
    let bucket = "weir_revision_first_byte_seconds_bucket{le=\"+Inf\"";
    assert!(metrics().contains(bucket), "{}", metrics());
}

#[tokio::test]
async fn a_report_lists_the_replica_that_sends_a_stream_until_the_stream_ends() {
    let Stream { world, replica: _replica, events, client: _client, asked } = asked().await;
    let load = |activity: &Activity| {
        let loads: Vec<_> = activity.replica_loads.values().copied().collect();
        loads
    };
    events.send(Bytes::from("data: 0\n\n")).await.unwrap();
    let response = asked.await.unwrap().unwrap();
    let (streams, requests) = (1, 1);
    let stream = [ReplicaLoad { streams, requests }];
    world.activity(1, |activity| load(activity) == stream).await;
    drop(events);
    response.into_body().collect().await.unwrap();
    world.activity(1, |activity| load(activity).is_empty()).await;
}

#[tokio::test]
async fn a_stream_ends_when_its_client_disconnects() {
    let Stream { world, replica, events, client, asked } = asked().await;
    events.send(Bytes::from_static(b"data: 1\n\n")).await.unwrap();
    let response = asked.await.unwrap().unwrap();
    drop(response);
    drop(client);
    replica.seen.until_busy(0).await;
    world.activity(1, |activity| activity.in_flight == 0).await;
}
