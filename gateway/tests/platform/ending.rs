//! The end: who has asked is answered, and nobody else is waited for.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::client::{Client, connect, connect_h2, post, read};
use crate::grpc;
use crate::replica::{Manner, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World};

/// Far less than any timeout that would end the connection without the rule.
const SOON: Duration = Duration::from_secs(20);

/// A world with one replica that answers after this time.
async fn world(time: Duration) -> (World, TestReplica) {
    let world = World::new(1).await;
    let replica = TestReplica::start(Manner::Echo(time)).await;
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", replica.address).await;
    (world, replica)
}

/// Ends the gateway, which must be soon.
pub(crate) async fn end(world: &mut World) {
    let running = &mut world.gateways[0];
    let began = Instant::now();
    running.stop.cancel();
    let serving = running.serving.take().unwrap();
    tokio::time::timeout(TEST_TIMEOUT, serving).await.unwrap().unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// A connection on which these bytes were sent, and taken by the gateway.
async fn raw(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    // Whoever is answered on a later connection knows that this one was accepted.
    let status = once_status(address).await;
    assert_eq!(status, StatusCode::OK);
    stream
}

async fn once_status(address: SocketAddr) -> StatusCode {
    let mut client = Client::new(address);
    client.send(post(HOST, "/", "hi")).await.unwrap().status
}

/// The end while a client sent no more than this.
async fn ends_despite(bytes: &[u8]) {
    let (mut world, _replica) = world(Duration::ZERO).await;
    let mut stream = raw(world.address(), bytes).await;
    end(&mut world).await;
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    // Closed, or reset for what nobody read.
    let _ = tokio::time::timeout(TEST_TIMEOUT, read).await.unwrap();
}

#[tokio::test]
async fn a_silent_connection_does_not_hold_it_up() {
    ends_despite(b"").await;
}

#[tokio::test]
async fn half_a_head_does_not_hold_it_up() {
    ends_despite(b"POST / HTTP/1.1\r\nhost: digits.def").await;
}

#[tokio::test]
async fn half_a_preface_does_not_hold_it_up() {
    ends_despite(b"PRI * HTTP/2.0\r\n").await;
}

#[tokio::test]
async fn an_http2_client_that_never_says_more_does_not_hold_it_up() {
    // The preface and empty settings: such a client answers no ping either.
    ends_despite(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
}

#[tokio::test]
async fn idle_connections_do_not_hold_it_up() {
    let (mut world, _replica) = world(Duration::ZERO).await;
    let mut plain = connect::<Full<Bytes>>(world.address()).await;
    let answer = plain.send_request(post(HOST, "/", "hi")).await.unwrap();
    read(answer).await.unwrap();
    let mut h2 = connect_h2::<Full<Bytes>>(world.address()).await;
    let request = Request::post(format!("http://{HOST}/"));
    let request = request.body(Full::new(Bytes::from_static(b"hi"))).unwrap();
    let answer = h2.send_request(request).await.unwrap();
    read(answer).await.unwrap();
    end(&mut world).await;
}

#[tokio::test]
async fn a_body_that_stalls_does_not_hold_it_up() {
    let mut world = World::new(0).await;
    let mut options = weir_gateway::Options::new("patient", weir_gateway::Scope::Local);
    options.connections.stall = 20 * TEST_TIMEOUT;
    world.add(options).await;
    let replica = TestReplica::start(Manner::Echo(Duration::ZERO)).await;
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", replica.address).await;
    let half = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 10\r\n\r\nhello");
    let mut stream = raw(world.address(), half.as_bytes()).await;
    let running = &mut world.gateways[0];
    running.stop.cancel();
    let serving = running.serving.take().unwrap();
    let served = tokio::time::timeout(TEST_TIMEOUT, serving).await;
    served.unwrap().unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("stalled for 5 s"), "{answer}");
}

type Pieces = mpsc::Sender<io::Result<Frame<Bytes>>>;

/// A body of what is sent to it.
fn body() -> (Pieces, StreamBody<ReceiverStream<io::Result<Frame<Bytes>>>>) {
    let (pieces, receiver) = mpsc::channel(1);
    (pieces, StreamBody::new(ReceiverStream::new(receiver)))
}

#[tokio::test]
async fn a_stream_that_has_its_answers_is_told_to_go_elsewhere() {
    let gate = Arc::new(Semaphore::new(1));
    for manner in [Manner::Answer(gate), Manner::Mirror] {
        let (mut world, _replica) = World::with(manner).await;
        let mut client = connect_h2(world.address()).await;
        let (messages, body) = body();
        let message = grpc::infer("digits");
        messages.send(Ok(Frame::data(message.clone()))).await.unwrap();
        let path = format!("{}/ModelStreamInfer", grpc::SERVICE);
        let asked = client.send_request(grpc::call(HOST, &path, body));
        let mut answers = asked.await.unwrap().into_body();
        let answer = answers.frame().await.unwrap().unwrap();
        assert_eq!(answer.into_data().unwrap(), message);
        end(&mut world).await;
        let told = tokio::time::timeout(TEST_TIMEOUT, answers.collect());
        let told = told.await.unwrap().unwrap();
        assert_eq!(told.trailers().unwrap()["grpc-status"], "14");
        drop(messages);
    }
}

#[tokio::test]
async fn a_stream_that_has_sent_nothing_is_told_to_go_elsewhere() {
    let (mut world, replica) = world(Duration::ZERO).await;
    let mut client = connect_h2(world.address()).await;
    let (messages, silent) = body();
    let path = format!("{}/ModelStreamInfer", grpc::SERVICE);
    let asked = tokio::spawn(client.send_request(grpc::call(HOST, &path, silent)));
    // A later request of the same connection is answered once the gateway has read the stream's head.
    let (nothing, empty) = body();
    drop(nothing);
    let later = Request::post(format!("http://{HOST}/")).body(empty);
    let answer = client.send_request(later.unwrap()).await.unwrap();
    assert_eq!(read(answer).await.unwrap().status, StatusCode::OK);
    end(&mut world).await;
    let told = grpc::ended(asked.await.unwrap().unwrap()).await;
    let because = "the gateway shuts down".to_owned();
    assert_eq!(grpc::status(&told), ("14", because));
    assert_eq!(replica.requests(), 1);
    drop(messages);
}

#[tokio::test]
async fn a_gateway_that_leaves_ends_each_connection_with_its_answer() {
    let (world, _replica) = world(Duration::ZERO).await;
    let mut client = Client::new(world.address());
    let before = client.send(post(HOST, "/", "hi")).await.unwrap();
    assert!(!before.headers.contains_key("connection"), "{before:?}");
    world.gateways[0].gateway.leave();
    // On the same connection, and on another.
    for _ in 0..2 {
        let after = client.send(post(HOST, "/", "hi")).await.unwrap();
        let told = (after.status, after.header("connection"));
        assert_eq!(told, (StatusCode::OK, "close"));
    }
    let mut h2 = connect_h2::<Full<Bytes>>(world.address()).await;
    for _ in 0..2 {
        let request = Request::post(format!("http://{HOST}/"));
        let request = request.body(Full::new(Bytes::from_static(b"hi"))).unwrap();
        let answer = h2.send_request(request).await.unwrap();
        assert_eq!(read(answer).await.unwrap().text(), "hi");
    }
}

#[tokio::test]
async fn what_was_asked_is_answered() {
    // Longer than any who asks nothing is waited for.
    let (mut world, replica) = world(Duration::from_secs(3)).await;
    let mut plain = connect::<Full<Bytes>>(world.address()).await;
    let asked = tokio::spawn(async move { plain.send_request(post(HOST, "/", "hi")).await });
    let mut h2 = connect_h2::<Full<Bytes>>(world.address()).await;
    let request = Request::post(format!("http://{HOST}/"));
    let request = request.body(Full::new(Bytes::from_static(b"hi"))).unwrap();
    let asked_h2 = tokio::spawn(async move { h2.send_request(request).await });
    replica.seen.until_busy(2).await;
    end(&mut world).await;
    for asked in [asked, asked_h2] {
        let answer = read(asked.await.unwrap().unwrap()).await.unwrap();
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, "hi"));
    }
}
