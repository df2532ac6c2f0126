//! Tests of the shutdown: accepted requests are answered, and the gateway waits for no other client.

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
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World};

/// Longest time of a shutdown: far less than any timeout that would otherwise end the connections.
const SOON: Duration = Duration::from_secs(20);

/// Creates a world with one replica that answers after this time.
async fn world(time: Duration) -> (World, TestReplica) {
    World::with(Behaviour::Echo(time)).await
}

/// Shuts the gateway down and checks that this is quick.
pub(crate) async fn end(world: &mut World) {
    let running = &mut world.gateways[0];
    let began = Instant::now();
    running.stop.cancel();
    let serving = running.serving.take().unwrap();
    tokio::time::timeout(TEST_TIMEOUT, serving).await.unwrap().unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// Opens a connection, sends these bytes on it, and waits until the gateway has accepted it.
async fn raw(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    // The gateway accepts connections in order, so an answer on a later connection shows that this one was accepted.
    let status = once_status(address).await;
    assert_eq!(status, StatusCode::OK);
    stream
}

async fn once_status(address: SocketAddr) -> StatusCode {
    let mut client = Client::new(address);
    client.send(post(HOST, "/", "hi")).await.unwrap().status
}

/// Shuts the gateway down while a client has sent no more than these bytes.
async fn ends_despite(bytes: &[u8]) {
    let (mut world, _replica) = world(Duration::ZERO).await;
    let mut stream = raw(world.address(), bytes).await;
    end(&mut world).await;
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    // The connection is closed, or reset because of unread data.
    let _ = tokio::time::timeout(TEST_TIMEOUT, read).await.unwrap();
}

#[tokio::test]
async fn clients_without_a_whole_request_do_not_delay_the_shutdown() {
    for bytes in [
        &b""[..],
        b"POST / HTTP/1.1\r\nhost: digits.def",
        b"PRI * HTTP/2.0\r\n",
        // The client sends only the preface and empty settings, and would not answer a ping either.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ] {
        ends_despite(bytes).await;
    }
}

#[tokio::test]
async fn idle_connections_do_not_delay_the_shutdown() {
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
async fn a_stalled_body_does_not_delay_the_shutdown() {
    let mut options = weir_gateway::Options::new("patient", weir_gateway::Scope::Local);
    options.connections.stall = 20 * TEST_TIMEOUT;
    let mut world = World::of(options).await;
    world.serve(&[100], |_| {}).await;
    let _replica = world.start(1, "a", Behaviour::Echo(Duration::ZERO)).await;
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

/// Creates a body, and the sender of its frames.
fn body() -> (Pieces, StreamBody<ReceiverStream<io::Result<Frame<Bytes>>>>) {
    let (pieces, receiver) = mpsc::channel(1);
    (pieces, StreamBody::new(ReceiverStream::new(receiver)))
}

#[tokio::test]
async fn a_stream_with_all_its_answers_ends_as_unavailable() {
    let gate = Arc::new(Semaphore::new(1));
    for behaviour in [Behaviour::Answer(gate), Behaviour::Mirror] {
        let (mut world, _replica) = World::with(behaviour).await;
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
        let reply = tokio::time::timeout(TEST_TIMEOUT, answers.collect());
        let reply = reply.await.unwrap().unwrap();
        assert_eq!(reply.trailers().unwrap()["grpc-status"], "14");
        drop(messages);
    }
}

#[tokio::test]
async fn a_stream_without_a_message_ends_as_unavailable() {
    let (mut world, replica) = world(Duration::ZERO).await;
    let mut client = connect_h2(world.address()).await;
    let (messages, silent) = body();
    let path = format!("{}/ModelStreamInfer", grpc::SERVICE);
    let asked = tokio::spawn(client.send_request(grpc::call(HOST, &path, silent)));
    // On the same connection, a later request is answered only after the gateway has read the stream's head.
    let (nothing, empty) = body();
    drop(nothing);
    let later = Request::post(format!("http://{HOST}/")).body(empty);
    let answer = client.send_request(later.unwrap()).await.unwrap();
    assert_eq!(read(answer).await.unwrap().status, StatusCode::OK);
    end(&mut world).await;
    let reply = grpc::ended(asked.await.unwrap().unwrap()).await;
    let because = "the gateway is shutting down".to_owned();
    assert_eq!(grpc::status(&reply), ("14", because));
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
    // Checks the same connection, and then a new one.
    for _ in 0..2 {
        let after = client.send(post(HOST, "/", "hi")).await.unwrap();
        let reply = (after.status, after.header("connection"));
        assert_eq!(reply, (StatusCode::OK, "close"));
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
async fn requests_in_flight_are_answered() {
    // Longer than the gateway waits for clients without an open request.
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
