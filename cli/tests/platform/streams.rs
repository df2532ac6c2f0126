//! Streams pass through the gateway frame by frame.

use std::io;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::client::{self, GrpcClient, HttpClient};
use crate::fixture::Fixture;
use crate::http::send;
use crate::load::runtime;
use crate::manifest::Service;
use crate::weir::wait_until;

const EVENTS: &str = "/v2/models/echo/generate_stream";

fn fixture() -> Fixture {
    Fixture::ready(1, |shared| Service::new("one").shared_dir(shared).replicas(1, 1).concurrency(1))
}

/// Returns the next piece of the body; `None` at the end.
async fn piece(body: &mut Incoming) -> Option<Bytes> {
    let frame = body.frame().await?.unwrap();
    Some(frame.into_data().unwrap_or_default())
}

#[test]
fn each_event_arrives_before_the_next_is_sent() {
    let fixture = fixture();
    let reading = async {
        let mut http = HttpClient::new(fixture.weir.serving);
        let response = http.stream(EVENTS).await;
        assert_eq!(response.headers()["weir-revision"], "echo-predictor-00001");
        let mut body = response.into_body();
        assert_eq!(piece(&mut body).await.unwrap(), "data: one\n\n");
        // Only now may the replica send the next event.
        fixture.shared.release_events();
        assert_eq!(piece(&mut body).await.unwrap(), "data: two\n\n");
        assert_eq!(piece(&mut body).await, None);
    };
    runtime().block_on(reading);
}

#[test]
fn a_bidirectional_stream_alternates_messages() {
    let fixture = fixture();
    let talking = async {
        let mut grpc = GrpcClient::new(fixture.weir.serving);
        let (sender, receiver) = mpsc::channel::<io::Result<Frame<Bytes>>>(1);
        let body = StreamBody::new(ReceiverStream::new(receiver)).boxed_unsync();
        let path = "/inference.GRPCInferenceService/ModelStreamInfer";
        let say = async || {
            sender.send(Ok(Frame::data(client::message()))).await.unwrap();
        };
        let sent = grpc.call(path, &[], body).await.unwrap();
        let (response, ()) = tokio::join!(sent, say());
        let mut body = response.unwrap().into_body();
        for _ in 0..3 {
            assert_eq!(piece(&mut body).await.unwrap(), client::message());
            say().await;
        }
        assert_eq!(piece(&mut body).await.unwrap(), client::message());
        drop(sender);
        let end = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(end["grpc-status"], "0");
    };
    runtime().block_on(talking);
}

#[test]
fn a_client_that_disconnects_frees_its_credit() {
    let fixture = fixture();
    let leaving = async {
        let mut http = HttpClient::new(fixture.weir.serving);
        let mut body = http.stream(EVENTS).await.into_body();
        assert_eq!(piece(&mut body).await.unwrap(), "data: one\n\n");
        // The only credit is in use.
        let mut other = HttpClient::new(fixture.weir.serving);
        let late = other.infer(&[("weir-timeout", "200")]).await.unwrap();
        assert!(late.status == 504 && late.text.contains("in the queue"), "{late:?}");
        drop((body, http));
        // The stream would never end, but its client is gone.
        let answer = other.infer(&[("weir-timeout", "30000")]).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    runtime().block_on(leaving);
    fixture.wait_for_revision("no request left", 1, |revision| revision["in_flight"] == 0);
}

/// Returns the requests in flight at each replica of the only revision, as the gateway counts them.
fn in_flight(fixture: &Fixture) -> Vec<u64> {
    let (_, text) = send(fixture.weir.admin, "localhost", "GET", "/routes");
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    let routes: Value = serde_json::from_str(body).unwrap();
    let replicas = routes["revisions"][0]["replicas"].as_array().unwrap();
    let each = replicas.iter().map(|replica| replica["in_flight"].as_u64().unwrap());
    each.collect()
}

#[test]
fn a_scale_in_ends_the_idle_replica_and_leaves_streams_alone() {
    let service = |shared: &_, replicas| {
        let service = Service::new("one").shared_dir(shared);
        service.replicas(replicas, replicas).concurrency(1)
    };
    let fixture = Fixture::ready(3, |shared| service(shared, 3));
    let runtime = runtime();
    // Each replica has one credit, so that the youngest one has a stream as well.
    let mut streams = runtime.block_on(async {
        let mut streams = Vec::new();
        for _ in 0..3 {
            let mut http = HttpClient::new(fixture.weir.serving);
            let mut body = http.stream(EVENTS).await.into_body();
            assert_eq!(piece(&mut body).await.unwrap(), "data: one\n\n");
            streams.push((http, body));
        }
        streams
    });
    drop(streams.remove(0));
    fixture.wait_for_revision("two streams", 1, |revision| revision["in_flight"] == 2);
    fixture.edit(&service(&fixture.shared, 2));
    let is_idle_gone = || in_flight(&fixture) == [1, 1];
    wait_until("a replica for each stream", is_idle_gone, || fixture.weir.output());
    fixture.shared.release_events();
    runtime.block_on(async {
        for (_, body) in &mut streams {
            assert_eq!(piece(body).await.unwrap(), "data: two\n\n");
            assert_eq!(piece(body).await, None);
        }
    });
}
