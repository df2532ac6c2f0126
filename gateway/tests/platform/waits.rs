//! Tests that the gateway limits every wait for a client that holds a connection without using it.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use weir_gateway::{Options, Scope};
use weir_serve::Pace;

use crate::client::{connect_h2, once, post, read};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World};

/// Idle timeout and stall timeout of the gateway in these tests.
const IDLE: Duration = Duration::from_millis(400);

/// Longest time until a connection ends, with allowance for a busy machine. Without timeouts most of these connections
/// would never end.
const SOON: Duration = Duration::from_secs(10);

/// Pause between two bytes of a client that sends them one by one.
const DRIP: Duration = Duration::from_millis(50);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingpong";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// The beginning of a header block on stream 1, which never ends.
const HALF_HEADERS: &[u8] = b"\0\0\x01\x01\0\0\0\0\x01\x83";

/// Starts a gateway with short timeouts and a replica that echoes.
async fn world(change: impl FnOnce(&mut Options)) -> (World, TestReplica) {
    let mut options = Options::new("gateway", Scope::Local);
    options.connections.idle = IDLE;
    options.connections.stall = IDLE;
    options.connections.pace = Pace { grace: IDLE, rate: 1024 };
    change(&mut options);
    let (world, replica) = World::of_with(options, Behaviour::Echo(Duration::ZERO)).await;
    (world, replica)
}

/// Sends `begin` once and then `drip` again and again, and returns the bytes that the gateway sends until the
/// connection ends.
async fn received_before_the_end(world: &World, begin: &[u8], drip: &[u8]) -> Vec<u8> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    stream.write_all(begin).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let drip = drip.to_vec();
    let dripping = tokio::spawn(async move {
        // A single write may be missing for a moment; an error means that the connection has ended.
        while writer.write_all(&drip).await.is_ok() {
            tokio::time::sleep(DRIP).await;
        }
    });
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    let read = async {
        while let Ok(some @ 1..) = reader.read(&mut piece).await {
            received.extend_from_slice(&piece[..some]);
        }
    };
    let ended = tokio::time::timeout(SOON, read).await;
    assert!(ended.is_ok(), "held {:?}", began.elapsed());
    dripping.abort();
    received
}

/// Returns the types of the HTTP/2 frames in these bytes.
fn frame_types(mut bytes: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        types.push(head[3]);
        bytes = rest.get(length..).unwrap_or_default();
    }
    types
}

#[tokio::test]
async fn connections_without_a_request_end() {
    let (world, _replica) = world(|_| {}).await;
    for (begin, drip) in [
        (&b""[..], &b""[..]),
        (b"", b"P"),
        (b"PRI * HT", b""),
        (b"PRI * HTTP/2.0\r\n\r\n", b""),
        (PREFACE, b""),
        (PREFACE, SETTINGS),
        (b"POST / HTTP/1.1\r\nhost: x\r\n", b""),
        (b"POST / HTTP/1.1\r\nhost: x\r\nx-a: ", b"a"),
        (&[PREFACE, HALF_HEADERS].concat(), PING),
    ] {
        received_before_the_end(&world, begin, drip).await;
    }
}

#[tokio::test]
async fn pings_alone_do_not_keep_a_connection() {
    const GOAWAY: u8 = 7;
    let (world, _replica) = world(|_| {}).await;
    let received = received_before_the_end(&world, PREFACE, PING).await;
    let types = frame_types(&received);
    assert!(types.contains(&GOAWAY), "{types:?}");
}

#[tokio::test]
async fn a_very_slow_body_over_http1_is_refused() {
    let (world, replica) = world(|_| {}).await;
    for (framing, drip) in [("content-length: 100000", &b"x"[..]), ("transfer-encoding: chunked", b"1\r\n1\r\n")] {
        let head = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\n{framing}\r\n\r\n");
        let received = received_before_the_end(&world, head.as_bytes(), drip).await;
        let received = String::from_utf8(received).unwrap();
        assert!(received.starts_with("HTTP/1.1 408 "), "{received}");
        assert!(received.contains("slower than 1 KiB/s"), "{received}");
    }
    assert_eq!(replica.requests(), 0);
}

/// Creates a body that gets a byte now and then until it is dropped.
fn crawling() -> StreamBody<ReceiverStream<Result<Frame<Bytes>, Infallible>>> {
    let (pieces, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let piece = || Ok(Frame::data(Bytes::from_static(b"x")));
        while pieces.send(piece()).await.is_ok() {
            tokio::time::sleep(DRIP).await;
        }
    });
    StreamBody::new(ReceiverStream::new(receiver))
}

#[tokio::test]
async fn a_very_slow_body_over_http2_is_refused() {
    let (world, replica) = world(|_| {}).await;
    let mut client = connect_h2(world.address()).await;
    let request = Request::post(format!("http://{HOST}/")).body(crawling());
    let answer = client.send_request(request.unwrap());
    let answer = tokio::time::timeout(SOON, answer).await.unwrap().unwrap();
    assert_eq!(read(answer).await.unwrap().status, StatusCode::REQUEST_TIMEOUT);
    assert_eq!(replica.requests(), 0);
}

#[tokio::test]
async fn a_very_slow_streamed_body_is_refused_and_gives_its_credit_back() {
    // A body that is longer than the buffer is forwarded as it arrives.
    let (world, _replica) = world(|options| options.request_buffer = 10).await;
    let head = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 100000\r\n\r\n");
    let received = received_before_the_end(&world, head.as_bytes(), b"x").await;
    let received = String::from_utf8(received).unwrap();
    assert!(received.starts_with("HTTP/1.1 408 "), "{received}");
    assert!(received.contains("slower than 1 KiB/s"), "{received}");
    world.activity(1, |activity| (activity.in_flight, activity.failed) == (0, 0)).await;
}

#[tokio::test]
async fn a_response_without_a_window_gives_its_credit_back() {
    let (world, _replica) = world(|_| {}).await;
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let mut client = http2::Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(0);
    let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{HOST}/")).body(Full::new(Bytes::from_static(b"x")));
    let answer = sender.send_request(request.unwrap()).await.unwrap();
    world.activity(1, |activity| activity.in_flight == 0).await;
    let body = tokio::time::timeout(TEST_TIMEOUT, answer.into_body().collect());
    assert!(body.await.unwrap().is_err());
}

#[tokio::test]
async fn one_client_cannot_take_all_connections() {
    let (world, _replica) = world(|options| {
        options.connections.idle = 10 * TEST_TIMEOUT;
        options.connections.total = 40;
        options.connections.per_client = 10;
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..60 {
        held.push(TcpStream::connect(world.address()).await.unwrap());
    }
    let mut client = other_address(&world).await;
    let request = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = client.read_to_string(&mut answer);
    tokio::time::timeout(TEST_TIMEOUT, read).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // Counts the closed connections. A connection that waits for another one of the same client to end is closed after
    // a second.
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    let mut closed = closed_of(&mut held).await;
    while closed < 48 && tokio::time::Instant::now() < deadline {
        closed = closed_of(&mut held).await;
    }
    assert!((48..=52).contains(&closed), "{closed}");
}

async fn closed_of(held: &mut [TcpStream]) -> usize {
    let mut closed = 0;
    for stream in held {
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut byte));
        closed += usize::from(read.await.is_ok());
    }
    closed
}

/// Connects from another address of this machine.
async fn other_address(world: &World) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    socket.connect(world.address()).await.unwrap()
}

#[tokio::test]
async fn a_head_of_more_than_64_kib_is_refused() {
    let (world, _replica) = world(|_| {}).await;
    let fits = post(HOST, "/", "hi");
    let mut large = post(HOST, "/", "hi");
    let value = "x".repeat(140_000).parse().unwrap();
    large.headers_mut().insert("x-large", value);
    assert_eq!(once(world.address(), fits).await.status, StatusCode::OK);
    let answer = once(world.address(), large).await;
    assert_eq!(answer.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}
