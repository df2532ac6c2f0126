//! Streams pass through frame by frame.

use std::io;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::client::{self, GrpcClient, HttpClient};
use crate::fixture::Fixture;
use crate::load::runtime;
use crate::manifest::Service;

const EVENTS: &str = "/v2/models/echo/generate_stream";

fn fixture() -> Fixture {
    Fixture::ready(1, |shared| {
        Service::new("one")
            .shared_dir(shared)
            .replicas(1, 1)
            .concurrency(1)
    })
}

/// The next piece of the body; `None` at the end.
async fn piece(body: &mut Incoming) -> Option<Bytes> {
    let frame = body.frame().await?.unwrap();
    Some(frame.into_data().unwrap_or_default())
}

#[test]
fn events_arrive_while_others_are_still_to_come() {
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
            sender
                .send(Ok(Frame::data(client::message())))
                .await
                .unwrap();
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
        let end = body
            .frame()
            .await
            .unwrap()
            .unwrap()
            .into_trailers()
            .unwrap();
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
        // The only credit is taken.
        let mut other = HttpClient::new(fixture.weir.serving);
        let late = other.infer(&[("weir-timeout", "200")]).await.unwrap();
        assert!(
            late.status == 504 && late.text.contains("in the queue"),
            "{late:?}"
        );
        drop((body, http));
        // The stream would never end, but its client is gone.
        let answer = other.infer(&[("weir-timeout", "30000")]).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    runtime().block_on(leaving);
    fixture.wait_for_revision("no request left", 1, |revision| revision["in_flight"] == 0);
}
