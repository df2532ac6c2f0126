//! Tests of gRPC's health service for one service, called by the service's host or below its path.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use weir_cluster::{Failure, FailureReason};

use crate::client::{connect_h2, once, post};
use crate::ending::end;
use crate::grpc;
use crate::replica::Behaviour;
use crate::world::{HOST, TEST_TIMEOUT, World, revision};

const SERVING: [u8; 7] = [0, 0, 0, 0, 2, 8, 1];
const NOT_SERVING: [u8; 7] = [0, 0, 0, 0, 2, 8, 2];

/// Number of watches, more than the replicas here take requests at once.
const WATCHES: usize = 4;

/// Creates a health call without a service name.
fn call(host: &str, path: &str) -> http::Request<Full<Bytes>> {
    grpc::call(host, path, Full::new(Bytes::from_static(&[0; 5])))
}

async fn check(world: &World, request: http::Request<Full<Bytes>>) -> Bytes {
    let checked = grpc::send(world.address(), request).await;
    assert_eq!(grpc::status(&checked).0, "0");
    checked.data
}

async fn watch(world: &World, host: &str, prefix: &str) -> Incoming {
    let path = format!("{prefix}/grpc.health.v1.Health/Watch");
    let mut client = connect_h2(world.address()).await;
    let response = client.send_request(call(host, &path)).await.unwrap();
    response.into_body()
}

async fn next(watch: &mut Incoming) -> Bytes {
    let frame = tokio::time::timeout(TEST_TIMEOUT, watch.frame()).await;
    let frame = frame.unwrap().unwrap().unwrap();
    frame.into_data().unwrap()
}

fn fail(world: &World, number: u32) {
    let failure = Failure::new(FailureReason::StorageFailed, "no file /models/digits");
    world.fake.fail(&revision(number), failure).unwrap();
}

#[tokio::test]
async fn watches_hold_no_credit() {
    let (world, replica) = World::with_limited(Behaviour::Echo(Duration::ZERO)).await;
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        for (host, prefix) in [(HOST, ""), ("localhost", "/serving/default/digits")] {
            let mut watch = watch(&world, host, prefix).await;
            assert_eq!(next(&mut watch).await[..], SERVING);
            watches.push(watch);
        }
    }
    let answer = once(world.address(), post(HOST, "/", "x")).await;
    assert_eq!((answer.text(), replica.requests()), ("x", 1));
    drop(watches);
}

#[tokio::test]
async fn a_service_at_zero_is_serving_and_is_not_woken() {
    let world = World::serving().await;
    let checked = check(&world, call(HOST, "/grpc.health.v1.Health/Check")).await;
    assert_eq!(checked[..], SERVING);
    let mut watch = watch(&world, HOST, "").await;
    assert_eq!(next(&mut watch).await[..], SERVING);
    let state: serde_json::Value = serde_json::from_str(&world.gateways[0].gateway.describe()).unwrap();
    let queue = &state["revisions"][0];
    assert_eq!(queue["arrivals"], 0);
    assert_eq!(queue["queued"], 0);
}

#[tokio::test]
async fn a_watch_reports_each_change() {
    let world = World::serving().await;
    let mut watch = watch(&world, HOST, "").await;
    assert_eq!(next(&mut watch).await[..], SERVING);
    fail(&world, 1);
    assert_eq!(next(&mut watch).await[..], NOT_SERVING);
    let replica = world.start(1, "a", Behaviour::Hang).await;
    assert_eq!(next(&mut watch).await[..], SERVING);
    assert_eq!(replica.requests(), 0);
}

#[tokio::test]
async fn a_service_is_serving_while_its_canary_is_down() {
    let world = World::new(1).await;
    world.serve(&[90, 10], |_| {}).await;
    fail(&world, 2);
    world.settled().await;
    for (pin, expected) in
        [(None, SERVING), (Some("digits-predictor-00001"), SERVING), (Some("digits-predictor-00002"), NOT_SERVING)]
    {
        let mut request = call(HOST, "/grpc.health.v1.Health/Check");
        if let Some(pin) = pin {
            let pinned = http::HeaderValue::from_static(pin);
            request.headers_mut().insert("weir-revision", pinned);
        }
        assert_eq!(check(&world, request).await[..], expected, "{pin:?}");
    }
}

#[tokio::test]
async fn a_watch_ends_with_the_gateway() {
    let (mut world, _replica) = World::with(Behaviour::Hang).await;
    let watch = watch(&world, HOST, "").await;
    end(&mut world).await;
    let ended = watch.collect().await.unwrap();
    assert_eq!(ended.trailers().unwrap()["grpc-status"], "14");
    assert_eq!(ended.to_bytes()[..], [SERVING, NOT_SERVING].concat());
}
