//! Tests of responses that are sent before the request was read, by a replica or by the gateway itself.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_gateway::{Options, Scope};

use crate::world::{HOST, TEST_TIMEOUT, World};

/// Body size in bytes, more than the sockets on the way can buffer.
const BODY: usize = 24 << 20;

/// Number of uploads in a row. The race between response and upload differs from one to the next.
const UPLOADS: u64 = 20;

/// Behaviour of the replica after its response.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Closes the connection with unread data, so that the kernel resets it.
    Close,
    /// Keeps the connection open and reads nothing.
    Stay,
}

/// Starts a replica that answers 413 once it has read the head and `read` more bytes.
async fn replica(read: usize, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; read.max(1024)];
            let first = stream.read(&mut buffer).await.unwrap();
            if buffer[..first].starts_with(b"GET") {
                let ready = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                stream.write_all(ready).await.unwrap();
                continue;
            }
            let mut left = read.saturating_sub(first);
            while left > 0 {
                left = left.saturating_sub(stream.read(&mut buffer).await.unwrap());
            }
            let answer = b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 9\r\n\r\ntoo large";
            stream.write_all(answer).await.unwrap();
            match then {
                Then::Close => drop(stream),
                Then::Stay => kept.push(stream),
            }
        }
    });
    address
}

/// Sends the whole body to a host and model, as most clients do, and then reads the status line of the response.
async fn upload(address: SocketAddr, (host, model): (&str, &str), chunked: bool) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let framing = if chunked { "transfer-encoding: chunked".to_owned() } else { format!("content-length: {BODY}") };
    let head = format!("POST /v2/models/{model}/infer HTTP/1.1\r\nhost: {host}\r\n{framing}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b'0'; 1 << 16];
    for _ in 0..BODY / piece.len() {
        if chunked {
            stream.write_all(b"10000\r\n").await.unwrap();
        }
        stream.write_all(&piece).await.unwrap();
        if chunked {
            stream.write_all(b"\r\n").await.unwrap();
        }
    }
    if chunked {
        stream.write_all(b"0\r\n\r\n").await.unwrap();
    }
    let mut answer = vec![0; 1024];
    let read = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_answer_reaches_a_client_that_sends_everything_first() {
    for then in [Then::Close, Then::Stay] {
        for read in [0, 300_000] {
            let mut options = Options::new("small", Scope::Local);
            options.request_buffer = 100_000;
            let world = World::of(options).await;
            world.serve(&[100], |_| {}).await;
            world.put(1, "a", replica(read, then).await).await;
            for number in 0..UPLOADS {
                let asked = upload(world.address(), (HOST, "digits"), number % 2 == 0);
                let answer = tokio::time::timeout(TEST_TIMEOUT, asked).await.unwrap();
                let is_right = answer.starts_with("HTTP/1.1 413 ");
                assert!(is_right, "{then:?} {read} {number}: {answer}");
            }
            // An early response is no failure of the replica, so none is counted and the replica is not ejected.
            world.activity(1, |activity| activity.succeeded == UPLOADS && activity.failed == 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_reaches_a_client_that_sends_everything_first() {
    let world = World::serving().await;
    for number in 0..UPLOADS {
        let asked = upload(world.address(), ("localhost", "nope"), number % 2 == 0);
        let answer = tokio::time::timeout(TEST_TIMEOUT, asked).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 "), "{number}: {answer}");
    }
}

/// The client holds the body back, and would send it after `100 Continue`.
#[tokio::test]
async fn a_refusal_comes_instead_of_100_continue_and_ends_the_connection() {
    let world = World::new(1).await;
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    let head = "POST /v2/models/nope/infer HTTP/1.1\r\nhost: localhost\r\n\
                expect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(TEST_TIMEOUT, read).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
}
