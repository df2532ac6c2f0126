//! Tests of clients that do not read their responses, and of clients that wait for a silent replica.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use weir_gateway::{Options, Scope};

use crate::client::{connect, connect_h2, post, read};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World};

/// Longest time for which a client may read nothing, in these tests.
const IDLE: Duration = Duration::from_millis(300);

/// MiB of a response, more than the sockets of a connection can buffer.
const FLOOD: usize = 64;

const EVENT: Bytes = Bytes::from_static(b"data: 1\n\n");

/// Starts a replica that sends the events of the test, behind a gateway with a short stall timeout.
async fn world() -> (World, TestReplica, mpsc::Sender<Bytes>) {
    let mut options = Options::new("gateway", Scope::Local);
    options.connections.stall = IDLE;
    let world = World::of(options).await;
    let (events, receiver) = mpsc::channel(1);
    let behaviour = Behaviour::Events(Arc::new(Mutex::new(Some(receiver))));
    world.serve(&[100], |_| {}).await;
    let replica = world.start(1, "a", behaviour).await;
    (world, replica, events)
}

/// Sends events until the receiver is closed.
async fn flood(events: mpsc::Sender<Bytes>) {
    let piece = Bytes::from(vec![0; 1 << 20]);
    for _ in 0..FLOOD {
        if events.send(piece.clone()).await.is_err() {
            return;
        }
    }
    // The response does not end by itself.
    events.closed().await;
}

fn get() -> Request<Full<Bytes>> {
    let request = Request::post(format!("http://{HOST}/"));
    request.body(Full::default()).unwrap()
}

#[tokio::test]
async fn an_http1_client_that_does_not_read_gives_its_credit_back() {
    let (world, replica, events) = world().await;
    let mut client = TcpStream::connect(world.address()).await.unwrap();
    let request = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 0\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    replica.seen.until_busy(1).await;
    tokio::time::timeout(TEST_TIMEOUT, flood(events)).await.unwrap();
    replica.seen.until_busy(0).await;
    world.activity(1, |activity| activity.in_flight == 0).await;
    // The client gets what was already sent, and then the connection is closed.
    let mut rest = Vec::new();
    let read = client.read_to_end(&mut rest);
    let _ = tokio::time::timeout(TEST_TIMEOUT, read).await.unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 200"), "{}", rest.len());
}

#[tokio::test]
async fn an_http2_stream_that_is_not_read_gives_its_credit_back() {
    let (world, replica, events) = world().await;
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let mut client = http2::Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(65_535);
    let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut second = sender.clone();
    let answer = tokio::spawn(async move { sender.send_request(get()).await });
    replica.seen.until_busy(1).await;
    let flood = flood(events);
    tokio::time::timeout(TEST_TIMEOUT, flood).await.unwrap();
    replica.seen.until_busy(0).await;
    world.activity(1, |activity| activity.in_flight == 0).await;
    // The other streams of the connection go on; the gateway itself answers this one.
    let health = Request::get("http://localhost/v2/health/live");
    let health = health.body(Full::default()).unwrap();
    let health = read(second.send_request(health).await.unwrap()).await.unwrap();
    assert_eq!(health.status, StatusCode::OK);
    let body = answer.await.unwrap().unwrap().into_body();
    assert!(body.collect().await.is_err());
}

/// Reads two events, with long silence after each of them.
async fn receives_two_events(body: &mut Incoming, events: &mpsc::Sender<Bytes>) {
    for _ in 0..2 {
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), EVENT);
        // Longer than a client may read nothing.
        let silence = tokio::time::timeout(IDLE * 4, body.frame()).await;
        assert!(silence.is_err(), "{silence:?}");
        events.send(EVENT).await.unwrap();
    }
}

#[tokio::test]
async fn an_http1_client_may_wait_for_a_silent_replica() {
    let (world, replica, events) = world().await;
    let mut client = connect::<Full<Bytes>>(world.address()).await;
    let asked = tokio::spawn(client.send_request(post(HOST, "/", "")));
    replica.seen.until_busy(1).await;
    events.send(EVENT).await.unwrap();
    let mut body = asked.await.unwrap().unwrap().into_body();
    receives_two_events(&mut body, &events).await;
}

#[tokio::test]
async fn an_http2_client_may_wait_for_a_silent_replica() {
    let (world, replica, events) = world().await;
    let mut client = connect_h2::<Full<Bytes>>(world.address()).await;
    let asked = tokio::spawn(client.send_request(get()));
    replica.seen.until_busy(1).await;
    events.send(EVENT).await.unwrap();
    let mut body = asked.await.unwrap().unwrap().into_body();
    receives_two_events(&mut body, &events).await;
}

/// Longer than an idle connection keeps its buffers.
const LATE: Duration = Duration::from_secs(3);

/// Sizes of answers in steps of [`STEP`] bytes. They range up to more than sockets can buffer, and a step is less than
/// hyper buffers, so that for some sizes the end of the answer is still in hyper's buffer.
const SIZES: std::ops::Range<usize> = 1..40;
const STEP: usize = 160 << 10;

async fn ask_raw(world: &World, size: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // A small receive buffer, so that unread data stays in the gateway.
    socket.set_recv_buffer_size(STEP as u32 / 4).unwrap();
    let mut client = socket.connect(world.address()).await.unwrap();
    let head = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: {size}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&vec![b'x'; size]).await.unwrap();
    client
}

/// Reads a response of this size.
async fn read_raw(client: TcpStream, size: usize) {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert!(client.read_line(&mut line).await.unwrap() > 0);
    }
    let mut body = vec![0; size];
    client.read_exact(&mut body).await.unwrap();
    assert!(body.iter().all(|byte| *byte == b'x'));
}

#[tokio::test]
async fn a_late_reader_gets_the_whole_answer() {
    let (world, _replica) = World::with(Behaviour::Echo(Duration::ZERO)).await;
    let mut clients = Vec::new();
    for step in SIZES {
        clients.push((ask_raw(&world, step * STEP).await, step * STEP));
    }
    // The pause is the lateness of the clients; it waits for no condition.
    tokio::time::sleep(LATE).await;
    // All clients read at once, because on a busy machine the last of a sequence could exceed the time that a client
    // may read nothing.
    let reading = clients
        .into_iter()
        .map(|(client, size)| tokio::spawn(tokio::time::timeout(TEST_TIMEOUT, read_raw(client, size))));
    for read in reading.collect::<Vec<_>>() {
        read.await.unwrap().unwrap();
    }
}
