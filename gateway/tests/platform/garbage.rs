//! Tests of replicas whose responses are invalid.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;

use crate::client::{connect_h2, once, post, read};
use crate::grpc;
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, World};

const ECHO: Behaviour = Behaviour::Echo(Duration::ZERO);

/// Sends a request over one of the protocols, and returns the message of the error that an invalid response causes.
async fn garbage_error(world: &World, wire: &str) -> String {
    if wire == "HTTP" {
        let answer = once(world.address(), post(HOST, "/", "")).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{answer:?}");
        return answer.text().to_owned();
    }
    let request = grpc::call(HOST, grpc::INFER, Full::new(grpc::infer("digits")));
    let ended = grpc::send(world.address(), request).await;
    let (code, message) = grpc::status(&ended);
    assert_eq!(code, "13", "{message}");
    message
}

/// A replica with an invalid response may have done the work, so the request is retried only once instead of three
/// times.
async fn garbage_is_retried_once_at_most(wire: &str) {
    let world = World::new(1).await;
    let mut babblers = vec![TestReplica::babbling().await];
    world.serve_limited(&[100], Some(1), |_| {}).await;
    world.put(1, "babbler-0", babblers[0].address).await;
    // There is no other replica.
    let error = garbage_error(&world, wire).await;
    let expected = "returned no valid response: tried 1 times, last replica babbler-0: ";
    assert!(error.contains(expected), "{error}");
    world.take(1, "babbler-0").await;
    for name in ["babbler-1", "babbler-2", "babbler-3"] {
        let babbler = TestReplica::babbling().await;
        world.put(1, name, babbler.address).await;
        babblers.push(babbler);
    }
    let error = garbage_error(&world, wire).await;
    assert!(error.contains("tried 2 times, last replica babbler-"), "{error}");
    let mut asked: Vec<_> = babblers.iter().map(TestReplica::requests).collect();
    asked.sort_unstable();
    assert_eq!(asked, [0, 1, 1, 1]);
}

#[tokio::test]
async fn garbage_over_http_is_retried_once_on_another_replica() {
    garbage_is_retried_once_at_most("HTTP").await;
}

#[tokio::test]
async fn garbage_over_grpc_is_retried_once_on_another_replica() {
    garbage_is_retried_once_at_most("gRPC").await;
}

#[tokio::test]
async fn a_request_that_gets_garbage_is_answered_by_another_replica() {
    let world = World::new(1).await;
    let (babbler, good) = (TestReplica::babbling().await, TestReplica::start(ECHO).await);
    world.serve_limited(&[100], Some(1), |_| {}).await;
    world.put(1, "babbler", babbler.address).await;
    world.put(1, "good", good.address).await;
    for _ in 0..4 {
        let answer = once(world.address(), post(HOST, "/", "x")).await;
        assert_eq!(answer.text(), "x");
    }
    assert!(babbler.requests() > 0);
}

/// Takes longer than the ejection after an invalid response.
const BUSY: Behaviour = Behaviour::Echo(Duration::from_millis(2500));

#[tokio::test]
async fn a_request_that_gets_garbage_waits_for_another_busy_replica() {
    let world = World::new(1).await;
    let (babbler, busy) = (TestReplica::babbling().await, TestReplica::start(BUSY).await);
    world.serve_limited(&[100], Some(1), |_| {}).await;
    world.put(1, "busy", busy.address).await;
    let first = tokio::spawn(once(world.address(), post(HOST, "/", "x")));
    busy.seen.until_busy(1).await;
    world.put(1, "babbler", babbler.address).await;
    let answer = once(world.address(), post(HOST, "/", "y")).await;
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "y"));
    assert_eq!((babbler.requests(), busy.requests()), (1, 2));
    assert_eq!(first.await.unwrap().text(), "x");
}

fn with_headers(count: usize) -> Bytes {
    let lines: String = (0..count).map(|i| format!("x-{i}: {i}\r\n")).collect();
    format!("HTTP/1.1 200 OK\r\n{lines}content-length: 2\r\n\r\nhi").into()
}

#[tokio::test]
async fn a_response_may_have_256_headers_and_more_are_an_error() {
    let world = World::new(1).await;
    let many = TestReplica::saying(with_headers(200)).await;
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", many.address).await;
    // HTTP/1.1 clients have their own limit on the number of headers.
    let mut client = connect_h2(world.address()).await;
    let request = Request::post(format!("http://{HOST}/")).body(Full::new(Bytes::new()));
    let answer = client.send_request(request.unwrap()).await.unwrap();
    let answer = read(answer).await.unwrap();
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "hi"));
    assert_eq!(answer.header("x-199"), "199");
    world.take(1, "a").await;
    let too_many = TestReplica::saying(with_headers(300)).await;
    world.put(1, "b", too_many.address).await;
    let error = garbage_error(&world, "HTTP").await;
    assert!(error.contains("b: its head has more than 256 lines"), "{error}");
}
