//! Tests of WebSockets: bytes pass in both directions, hold one credit, and end with the drain, the deadline or a side.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use weir_cluster::{Endpoints, Phase, ReplicaLoad};
use weir_gateway::{Options, Scope};
use weir_serve::Pace;

use crate::client::{once, post};
use crate::replica::Observed;
use crate::world::{HOST, TEST_TIMEOUT, World, replica, revision, until};

pub(crate) const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

pub(crate) const HANDSHAKE: &str = "GET /ws?x=1 HTTP/1.1\r\nHost: digits.default\r\nConnection: keep-alive, Upgrade\r\n\
                         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Behaviour of a replica after it has read a request's head.
#[derive(Clone, Copy)]
pub(crate) enum After {
    /// Sends every byte back.
    Echo,
    /// Sends zeros for as long as they are read.
    Flood,
    /// Reads on, and counts each further head as a request.
    Read,
}

/// A replica that answers every request with `head` and then goes on as `after` says.
pub(crate) struct RawReplica {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) seen: Arc<Observed>,
    serving: JoinHandle<()>,
}

impl Drop for RawReplica {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

pub(crate) async fn server(head: String, after: After) -> RawReplica {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::<Observed>::default();
    let observed = Arc::clone(&seen);
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, head.clone(), after, Arc::clone(&observed)));
        }
    });
    RawReplica { address, seen, serving }
}

async fn answer(mut stream: TcpStream, head: String, after: After, seen: Arc<Observed>) {
    let request = head_of(&mut stream).await;
    if request.starts_with("GET /v2/health/ready") {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        return;
    }
    seen.requests.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    seen.bodies.lock().push(request.into());
    if stream.write_all(head.as_bytes()).await.is_err() {
        return;
    }
    let (mut from, mut to) = stream.split();
    let mut buffer = [0; 4096];
    match after {
        After::Echo => drop(tokio::io::copy(&mut from, &mut to).await),
        After::Flood => {
            while let Ok(sent) = to.write(&buffer).await {
                seen.now.fetch_add(sent, std::sync::atomic::Ordering::SeqCst);
            }
        }
        After::Read => {
            while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                seen.requests.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        }
    }
}

pub(crate) async fn head_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

async fn world(server: &RawReplica, concurrency: Option<u32>) -> World {
    let world = World::new(1).await;
    world.serve_limited(&[100], concurrency, |_| {}).await;
    world.put(1, "a", server.address).await;
    world
}

/// Opens a connection and sends these bytes.
async fn sent(world: &World, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream
}

pub(crate) async fn read(stream: &mut TcpStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    let read = tokio::time::timeout(TEST_TIMEOUT, stream.read_exact(&mut bytes)).await;
    read.unwrap().unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Reads until the gateway closes the connection.
async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(TEST_TIMEOUT, stream.read_to_end(&mut bytes)).await;
    // A connection may be reset instead, because the gateway left bytes of the client unread.
    let _ = read.unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn bytes_pass_in_both_directions_and_hold_one_credit() {
    let server = server(format!("{SWITCH}hello"), After::Echo).await;
    let world = world(&server, Some(1)).await;
    // The client sends its first bytes together with the handshake.
    let mut client = sent(&world, &format!("{HANDSHAKE}early")).await;
    let head = head_of(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    for line in ["connection: upgrade", "upgrade: websocket", "sec-websocket-accept: s3pP", "weir-revision: digits-"] {
        assert!(head.contains(line), "{line}: {head}");
    }
    assert_eq!(read(&mut client, 10).await, "helloearly");
    client.write_all(b"later").await.unwrap();
    assert_eq!(read(&mut client, 5).await, "later");
    let request = String::from_utf8(server.seen.bodies.lock()[0].to_vec()).unwrap();
    assert!(request.starts_with("GET /ws?x=1 HTTP/1.1\r\n"), "{request}");
    for line in ["connection: upgrade\r\n", "upgrade: websocket\r\n", "sec-websocket-key: dGhl"] {
        assert!(request.contains(line), "{line}: {request}");
    }
    // A scale-in removes a replica with a WebSocket last, and the credit is in use.
    let stream = ReplicaLoad { streams: 1, requests: 1 };
    world.activity(1, |a| a.in_flight == 1 && a.replica_loads.values().all(|load| *load == stream)).await;
    let other = tokio::spawn(once(world.address(), post(HOST, "/", "")));
    world.activity(1, |a| a.queued == 1).await;
    other.abort();
    client.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, "");
    world.activity(1, |a| a.in_flight == 0 && a.succeeded == 1 && a.replica_loads.is_empty()).await;
}

#[tokio::test]
async fn many_websockets_fit_under_a_measured_limit() {
    let server = server(SWITCH.to_owned(), After::Echo).await;
    let world = world(&server, None).await;
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut client = sent(&world, HANDSHAKE).await;
        assert!(head_of(&mut client).await.starts_with("HTTP/1.1 101"));
        open.push(client);
    }
    world.activity(1, |a| a.in_flight == 20).await;
    drop(open);
    world.activity(1, |a| a.in_flight == 0 && a.succeeded == 20).await;
}

#[tokio::test]
async fn what_follows_a_refused_upgrade_reaches_no_replica() {
    let server = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno".to_owned(), After::Read).await;
    let world = world(&server, None).await;
    let mut client = sent(&world, &format!("{HANDSHAKE}GET /smuggled HTTP/1.1\r\nhost: digits.default\r\n\r\n")).await;
    let answers = read_to_end(&mut client).await;
    assert!(answers.starts_with("HTTP/1.1 200 OK\r\n") && answers.ends_with("\r\n\r\nno"), "{answers}");
    assert_eq!(answers.matches("HTTP/1.1").count(), 1, "{answers}");
    assert!(answers.contains("connection: close"), "{answers}");
    // The connection to the replica is not used again.
    let answer = once(world.address(), post(HOST, "/", "")).await;
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "no"));
    let requests = server.seen.requests.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(requests, 2);
}

#[tokio::test]
async fn a_handshake_with_a_body_or_by_post_is_refused() {
    let server = server(SWITCH.to_owned(), After::Echo).await;
    let world = world(&server, None).await;
    for (from, to) in [
        ("GET", "POST"),
        ("\r\n\r\n", "\r\ncontent-length: 3\r\n\r\nabc"),
        ("\r\n\r\n", "\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ] {
        let mut client = sent(&world, &HANDSHAKE.replace(from, to)).await;
        let answer = read_to_end(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("a GET without a body"), "{answer}");
    }
    assert!(server.seen.bodies.lock().is_empty());
}

#[tokio::test]
async fn a_replica_that_switches_to_another_protocol_is_invalid() {
    let server = server(SWITCH.replace("websocket", "h2c"), After::Echo).await;
    let world = world(&server, None).await;
    let mut client = sent(&world, HANDSHAKE).await;
    let answer = read_to_end(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("another protocol"), "{answer}");
}

#[tokio::test]
async fn the_deadline_ends_a_websocket() {
    let server = server(SWITCH.to_owned(), After::Echo).await;
    let world = world(&server, None).await;
    let handshake = HANDSHAKE.replace("\r\n\r\n", "\r\nweir-timeout: 300\r\n\r\n");
    let mut client = sent(&world, &handshake).await;
    assert!(read_to_end(&mut client).await.starts_with("HTTP/1.1 101"));
    world.activity(1, |a| a.in_flight == 0 && a.succeeded == 0).await;
}

#[tokio::test]
async fn a_handshake_is_no_failure_of_a_replica_that_speaks_only_http2() {
    let server = server(SWITCH.to_owned(), After::Echo).await;
    let world = World::serving().await;
    let endpoints = Endpoints { http: None, grpc: Some(server.address.into()), metrics: None };
    world.fake.put(&revision(1), replica("a", endpoints, Phase::Ready)).unwrap();
    world.settled().await;
    let mut client = sent(&world, HANDSHAKE).await;
    assert!(head_of(&mut client).await.starts_with("HTTP/1.1 501 "));
    world.activity(1, |activity| (activity.succeeded, activity.failed, activity.in_flight) == (1, 0, 0)).await;
}

#[tokio::test]
async fn a_drain_waits_for_a_websocket() {
    let server = server(SWITCH.to_owned(), After::Echo).await;
    let mut world = world(&server, None).await;
    let mut client = sent(&world, HANDSHAKE).await;
    head_of(&mut client).await;
    let serving = world.gateways[0].serving.take().unwrap();
    world.gateways[0].stop.cancel();
    until("the port to close", || std::net::TcpStream::connect(world.address()).is_err()).await;
    client.write_all(b"still here").await.unwrap();
    assert_eq!(read(&mut client, 10).await, "still here");
    assert!(!serving.is_finished());
    drop(client);
    tokio::time::timeout(TEST_TIMEOUT, serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed_and_costs_little_memory() {
    let mut options = Options::new("gateway", Scope::Local);
    options.connections.stall = Duration::from_millis(400);
    options.connections.pace = Pace { grace: Duration::from_millis(400), rate: 1024 };
    let world = World::of(options).await;
    let server = server(SWITCH.to_owned(), After::Flood).await;
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", server.address).await;
    let mut client = sent(&world, HANDSHAKE).await;
    head_of(&mut client).await;
    world.activity(1, |a| a.in_flight == 0 && a.succeeded == 1).await;
    // The server could send no more than the sockets and the gateway's buffer hold.
    let sent = server.seen.now.load(std::sync::atomic::Ordering::SeqCst);
    assert!(sent < 64 << 20, "{sent} bytes");
}

/// HTTP/2's preface, empty settings, and an extended CONNECT for a WebSocket on stream 1.
fn extended_connect() -> Vec<u8> {
    let mut block = vec![0x02, 7];
    block.extend_from_slice(b"CONNECT");
    block.extend_from_slice(&[0x86, 0x84, 0x01, 14]);
    block.extend_from_slice(b"digits.default");
    block.extend_from_slice(&[0x00, 9]);
    block.extend_from_slice(b":protocol");
    block.push(9);
    block.extend_from_slice(b"websocket");
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(&[0, 0, block.len() as u8, 0x01, 0x04, 0, 0, 0, 1]);
    bytes.extend_from_slice(&block);
    bytes
}

#[tokio::test]
async fn an_extended_connect_of_http2_is_refused() {
    let server = server(SWITCH.to_owned(), After::Echo).await;
    let world = world(&server, None).await;
    let mut client = TcpStream::connect(world.address()).await.unwrap();
    client.write_all(&extended_connect()).await.unwrap();
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        client.read_exact(&mut payload).await.unwrap();
        match head[3] {
            // The stream is reset with PROTOCOL_ERROR, because the gateway's settings do not allow extended CONNECT.
            0x03 => break assert_eq!(payload, [0, 0, 0, 1]),
            // The settings have no SETTINGS_ENABLE_CONNECT_PROTOCOL (8).
            0x04 => assert!(payload.chunks(6).all(|setting| setting[..2] != [0, 8])),
            kind => assert!(matches!(kind, 0x06 | 0x08), "frame {kind}: {payload:?}"),
        }
    }
    assert!(server.seen.bodies.lock().is_empty());
}
