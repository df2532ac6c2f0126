//! Tests of unusual forms of requests, and of clients that break off their requests.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use weir_gateway::{Options, Scope};

use crate::client::{connect_h2, once, post, read};
use crate::grpc;
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World};

const ECHO: Behaviour = Behaviour::Echo(Duration::ZERO);

async fn world(change: impl FnOnce(&mut Options)) -> (World, TestReplica) {
    let mut options = Options::new("gateway", Scope::Local);
    change(&mut options);
    let (world, replica) = World::of_with(options, ECHO).await;
    (world, replica)
}

/// Sends these bytes, and reads until the connection ends.
async fn raw(world: &World, text: &str) -> String {
    let mut client = TcpStream::connect(world.address()).await.unwrap();
    client.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(TEST_TIMEOUT, client.read_to_string(&mut answer));
    read.await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn a_body_that_its_client_breaks_off_is_no_failure_of_the_replica() {
    let (world, replica) = world(|options| options.request_buffer = 10).await;
    for round in 1..=3 {
        let mut client = TcpStream::connect(world.address()).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 1000\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&[b'x'; 500]).await.unwrap();
        replica.seen.until_busy(round).await;
        drop(client);
        world.activity(1, |activity| activity.in_flight == 0).await;
    }
    let answer = once(world.address(), post(HOST, "/", "x")).await;
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "x"));
    world.activity(1, |activity| (activity.succeeded, activity.failed, activity.in_flight) == (1, 0, 0)).await;
}

/// Some servers do not read the body of a GET, and take it for the beginning of the next request.
#[tokio::test]
async fn a_connection_is_not_used_again_after_a_get_with_a_body() {
    let (world, replica) = world(|_| ()).await;
    let mut connections = Vec::new();
    for (method, body) in [("POST", "x"), ("GET", ""), ("POST", "x"), ("GET", "x"), ("POST", "x"), ("DELETE", "x")] {
        let request = Request::builder().method(method).uri("/").header("host", HOST).body(Full::from(body));
        let answer = once(world.address(), request.unwrap()).await;
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, body));
        connections.push(replica.seen.connections.load(Ordering::SeqCst));
    }
    assert_eq!(connections, [1, 1, 1, 1, 2, 2]);
}

/// Runs a replica that answers ready calls, answers 413 to any other request, and reads no further.
async fn refuse_early(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        let read = stream.read(&mut head).await.unwrap();
        if head[..read].starts_with(b"GET /v2/health/ready") {
            let ready = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(ready).await.unwrap();
            continue;
        }
        let answer = b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 5\r\n\r\nlarge";
        stream.write_all(answer).await.unwrap();
        let mut rest = Vec::new();
        // Reads until the gateway gives up.
        let _ = stream.read_to_end(&mut rest).await;
    }
}

#[tokio::test]
async fn an_answer_before_the_end_of_a_long_body_arrives_over_http2() {
    let mut options = Options::new("gateway", Scope::Local);
    options.request_buffer = 10;
    let world = World::of(options).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let replica = tokio::spawn(refuse_early(listener));
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", address).await;
    let (pieces, receiver) = mpsc::channel::<Result<Frame<Bytes>, io::Error>>(1);
    let piece = Bytes::from_static(b"more than ten bytes");
    pieces.send(Ok(Frame::data(piece))).await.unwrap();
    let body = StreamBody::new(ReceiverStream::new(receiver));
    let mut client = connect_h2(world.address()).await;
    let request = Request::post(format!("http://{HOST}/")).body(body).unwrap();
    let asked = async { read(client.send_request(request).await?).await };
    let answer = tokio::time::timeout(TEST_TIMEOUT, asked).await;
    let answer = answer.expect("before the body ends").unwrap();
    assert_eq!((answer.status.as_u16(), answer.text()), (413, "large"));
    replica.abort();
    drop(pieces);
}

#[tokio::test]
async fn the_host_in_the_request_target_reaches_the_replica() {
    let (world, replica) = world(|_| {}).await;
    let rest = "HTTP/1.1\r\nhost: other.example\r\nconnection: close\r\n\r\n";
    let answer = raw(&world, &format!("GET http://{HOST}/x {rest}")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let heads = replica.seen.heads.lock();
    let hosts = heads[0].headers.get_all("host").iter();
    let hosts: Vec<_> = hosts.map(HeaderValue::as_bytes).collect();
    assert_eq!((heads[0].uri.path(), hosts), ("/x", vec![HOST.as_bytes()]));
}

#[tokio::test]
async fn a_target_without_a_path_has_the_root_for_the_replica() {
    let (world, replica) = world(|_| {}).await;
    let rest = "HTTP/1.1\r\nhost: other.example\r\nconnection: close\r\n\r\n";
    let answer = raw(&world, &format!("GET http://{HOST}?x=1 {rest}")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(replica.seen.heads.lock()[0].uri, "/?x=1");
}

/// Some proxies end a stream like this if their own client has disconnected.
#[tokio::test]
async fn a_body_whose_stream_ends_without_an_error_code_is_not_whole() {
    for buffer in [10, 1000] {
        let (world, replica) = world(|options| options.request_buffer = buffer).await;
        let stream = TcpStream::connect(world.address()).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = || Request::post(format!("http://{HOST}/")).body(()).unwrap();
        let mut sender = sender.ready().await.unwrap();
        let (answer, mut body) = sender.send_request(request(), false).unwrap();
        body.send_data(Bytes::from_static(b"the first half of it"), false).unwrap();
        // The flow-control window is restored once the gateway has read the data.
        body.reserve_capacity(65_535);
        while body.capacity() < 65_535 {
            let grown = std::future::poll_fn(|context| body.poll_capacity(context));
            grown.await.unwrap().unwrap();
        }
        body.send_reset(h2::Reason::NO_ERROR);
        assert!(answer.await.is_err());
        world.activity(1, |activity| activity.in_flight == 0).await;
        let answer = once(world.address(), post(HOST, "/", "x")).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(*replica.seen.bodies.lock(), ["x"], "buffers {buffer} bytes");
    }
}

#[tokio::test]
async fn requests_that_servers_could_parse_differently_are_refused() {
    let (world, replica) = world(|_| {}).await;
    let end = "connection: close\r\n\r\n";
    let cases = [
        (format!("GET / HTTP/1.1\r\nhost: {HOST}\r\nhost: b\r\n{end}"), "400"),
        (format!("GET / HTTP/1.1\r\n{end}"), "400"),
        (format!("CONNECT {HOST}:80 HTTP/1.1\r\nhost: {HOST}\r\n{end}"), "405"),
        (
            // The connection ends although the client did not request that.
            format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            "400",
        ),
    ];
    for (text, status) in cases {
        let answer = raw(&world, &text).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert!(replica.seen.heads.lock().is_empty());
}

#[tokio::test]
async fn a_slow_body_is_refused_at_the_deadline() {
    let (world, replica) = world(|options| options.connections.stall = 20 * TEST_TIMEOUT).await;
    let head = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 1000\r\n");
    let answer = raw(&world, &format!("{head}weir-timeout: 300\r\n\r\nonly this")).await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    let expected = "s for the request's body, of which 9 bytes arrived";
    assert!(answer.contains("deadline exceeded: waited 0.") && answer.contains(expected), "{answer}");
    let (_message, receiver) = mpsc::channel::<Result<Frame<Bytes>, io::Error>>(1);
    let body = StreamBody::new(ReceiverStream::new(receiver));
    let mut request = grpc::call(HOST, grpc::INFER, body);
    let timeout = HeaderValue::from_static("300m");
    request.headers_mut().insert("grpc-timeout", timeout);
    let mut client = connect_h2(world.address()).await;
    let asked = tokio::time::timeout(TEST_TIMEOUT, client.send_request(request)).await;
    let late = grpc::ended(asked.unwrap().unwrap()).await;
    let (code, message) = grpc::status(&late);
    assert_eq!(code, "4", "{message}");
    assert!(message.contains("of which 0 bytes arrived"), "{message}");
    assert!(replica.seen.heads.lock().is_empty());
    // The slow upload is the client's fault.
    world.activity(1, |activity| activity.failed == 0).await;
}

#[tokio::test]
async fn the_services_own_timeout_includes_the_upload() {
    let (world, _replica) = world(|options| options.connections.stall = 20 * TEST_TIMEOUT).await;
    let timeout = Duration::from_millis(300);
    world.serve(&[100], |route| route.timeout = Some(timeout)).await;
    let head = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 1000\r\n\r\n");
    let answer = raw(&world, &head).await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
}

#[tokio::test]
async fn a_head_is_answered_without_a_body() {
    let (world, _replica) = world(|_| {}).await;
    let head = |path: &str, host: &str| {
        let request = Request::head(format!("http://{host}{path}"));
        let request = request.header(http::header::HOST, host);
        request.body(Full::new(Bytes::new())).unwrap()
    };
    for (path, status) in
        [("/v2/health/live", StatusCode::OK), ("/", StatusCode::OK), ("/nowhere", StatusCode::NOT_FOUND)]
    {
        let got =
            once(world.address(), Request::get(path).header("host", "localhost").body(Full::default()).unwrap()).await;
        let mut client = connect_h2(world.address()).await;
        let response = client.send_request(head(path, "localhost")).await.unwrap();
        let h2 = read(response).await.unwrap();
        let h1 = once(world.address(), head(path, "localhost")).await;
        for answer in [h1, h2] {
            assert_eq!((answer.status, answer.text()), (status, ""), "{path}");
            assert_eq!(answer.header("content-length"), got.text().len().to_string(), "{path}");
        }
    }
}

#[tokio::test]
async fn two_lengths_of_json_are_refused() {
    let (world, _replica) = world(|_| {}).await;
    let mut request = post(HOST, "/v2/models/m/infer", "{}1234");
    for length in ["2", "0"] {
        let name = "inference-header-content-length";
        request.headers_mut().append(name, HeaderValue::from_static(length));
    }
    let answer = once(world.address(), request).await;
    let expected = r#"{"error":"header inference-header-content-length: \"2, 0\" is not one length"}"#;
    assert_eq!((answer.status, answer.text()), (StatusCode::BAD_REQUEST, expected));
}
