//! Tests of responses that break off, end with trailers, or come from a replica that speaks only HTTP/2, and of request
//! heads that are too long.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_cluster::{Endpoints, Phase, Replica};

use crate::client::{once, post};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World, revision};

/// Sends a raw request and returns the bytes that the gateway sends until the connection ends.
async fn raw(world: &World, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut all = Vec::new();
    let reading = stream.read_to_end(&mut all);
    // A connection that breaks counts as ended too.
    let _ = tokio::time::timeout(TEST_TIMEOUT, reading).await.unwrap();
    String::from_utf8(all).unwrap()
}

/// Starts a gateway with a replica that answers every request with this text.
async fn saying(text: &'static str) -> (World, TestReplica) {
    let world = World::new(1).await;
    let replica = TestReplica::saying(Bytes::from_static(text.as_bytes())).await;
    world.serve_limited(&[100], Some(1), |_| {}).await;
    world.put(1, "a", replica.address).await;
    (world, replica)
}

#[tokio::test]
async fn the_beginning_of_an_answer_that_breaks_off_reaches_the_client() {
    let text = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthe beginning";
    let (world, _replica) = saying(text).await;
    let request = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 0\r\n\r\n");
    let answer = raw(&world, request.as_bytes()).await;
    assert!(answer.contains("content-length: 100\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nthe beginning"), "{answer}");
    world.activity(1, |activity| activity.failed == 1 && activity.in_flight == 0).await;
}

#[tokio::test]
async fn trailers_reach_a_client_that_accepts_them() {
    let text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
                3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n";
    let (world, _replica) = saying(text).await;
    let request = format!(
        "POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 0\r\nte: trailers\r\nconnection: te, close\r\n\r\n"
    );
    let answer = raw(&world, request.as_bytes()).await;
    assert!(answer.contains("trailer: x-sum\r\n"), "{answer}");
    assert!(answer.ends_with("0\r\nx-sum: 7\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn rest_reaches_a_replica_that_speaks_http2_only() {
    let world = World::new(1).await;
    let replica = TestReplica::start(Behaviour::Echo(std::time::Duration::ZERO)).await;
    world.serve(&[100], |_| {}).await;
    let endpoints = Endpoints { http: None, grpc: Some(replica.address.into()), metrics: None };
    let replica_of_h2c = Replica { endpoints, ..Replica::new("a", Phase::Ready) };
    world.fake.put(&revision(1), replica_of_h2c).unwrap();
    world.settled().await;
    let answer = once(world.address(), post(HOST, "/v1/models/m:predict", "body")).await;
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "body"));
    let head = replica.seen.heads.lock().pop().unwrap();
    assert_eq!(head.version, http::Version::HTTP_2);
    assert_eq!(head.uri.authority().unwrap().as_str(), HOST);
    assert!(!head.headers.contains_key("host"), "{head:?}");
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused_with_an_error_message() {
    let (world, replica) = World::with(Behaviour::Echo(std::time::Duration::ZERO)).await;
    let long = "a".repeat(70_000);
    let target = format!("GET /{long} HTTP/1.1\r\nhost: {HOST}\r\n\r\n");
    let lines = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\nx-a: {long}\r\n\r\n");
    for (request, status, what) in [
        (target, "414 URI Too Long", "the URL of the request is longer than 64 KiB"),
        (
            lines,
            "431 Request Header Fields Too Large",
            "the URL and the headers of the request are together longer than 64 KiB",
        ),
    ] {
        let answer = raw(&world, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
        let body = format!("{{\"error\":\"{what}: send long values in the body\"}}");
        assert!(answer.ends_with(&body), "{answer}");
    }
    assert_eq!(replica.requests(), 0);
}

#[tokio::test]
async fn a_request_that_no_replica_accepts_fails_with_the_reason() {
    let world = World::new(1).await;
    world.serve(&[100], |route| route.activation_timeout = Duration::from_millis(200)).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.put(1, "a", closed).await;
    let answer = once(world.address(), post(HOST, "/", "")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.text().contains("no replica accepted a connection, last replica a: "), "{answer:?}");
}
