//! Limits of a client's requests in flight: they count until the response, the stream or the connection has ended.

use std::num::NonZeroU32;

use http::Response;
use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use weir_access::ClientLimits;

use super::*;
use crate::world::TEST_TIMEOUT;

/// Time after which a refused request is sent again.
const AGAIN: Duration = Duration::from_millis(10);

fn limited(services: &[&str], concurrency: u32) -> ClientLimits {
    ClientLimits {
        clients: vec!["a".to_owned()],
        services: services.iter().map(|service| (*service).to_owned()).collect(),
        concurrency: NonZeroU32::new(concurrency),
        ..ClientLimits::default()
    }
}

fn limiting(limits: Vec<ClientLimits>) -> Policy {
    let keys = vec![written(1, "a"), written(2, "b")];
    let rules = vec![rule("*", &["*"], &[])];
    Policy::of(&[AccessDocument { keys, rules, limits, ..AccessDocument::default() }]).unwrap()
}

/// Starts a gateway with these limits in front of a replica with this address.
pub(super) async fn world(limits: Vec<ClientLimits>, address: std::net::SocketAddr) -> (World, Arc<AccessControl>) {
    let access = AccessControl::new(limiting(limits));
    let mut options = Options::new("gateway", Scope::Cluster);
    options.access = Some(Arc::clone(&access));
    let mut world = World::new(0).await;
    world.add(options).await;
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", address).await;
    (world, access)
}

fn request(number: u8) -> Request<Full<Bytes>> {
    with(post(HOST, "/v2/models/digits/infer", "x"), "x-api-key", &key(number).text)
}

/// Sends requests until one is not refused.
async fn accepted(world: &World) -> Answered {
    let again = async {
        loop {
            let answer = once(world.address(), request(1)).await;
            if answer.status != StatusCode::TOO_MANY_REQUESTS {
                return answer;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, again).await.unwrap()
}

#[tokio::test]
async fn a_client_with_its_requests_in_flight_is_refused_until_one_ends() {
    let gate = Arc::new(Semaphore::new(0));
    let echo = |_: &http::request::Parts, body: &Bytes| {
        Response::new(Full::new(body.clone()).map_err(|never| match never {}).boxed())
    };
    let replica = TestReplica::start(Behaviour::Compute(Arc::clone(&gate), echo)).await;
    let (world, access) = world(vec![limited(&["default/*"], 1)], replica.address).await;
    let (address, send) = (world.address(), |number| tokio::spawn(once(world.address(), request(number))));
    let first = send(1);
    replica.seen.until_busy(1).await;
    let refused = once(address, request(1)).await;
    assert_eq!((refused.status, refused.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, "1"));
    assert!(refused.text().contains("limit concurrency"), "{}", refused.text());
    // A change of the limits forgets no request that is in flight.
    access.replace(limiting(vec![limited(&["*"], 1)]));
    assert_eq!(once(address, request(1)).await.status, StatusCode::TOO_MANY_REQUESTS);
    let other = send(2);
    replica.seen.until_busy(2).await;
    gate.add_permits(2);
    assert_eq!((first.await.unwrap().status, other.await.unwrap().status), (StatusCode::OK, StatusCode::OK));
    // A client that goes away does not count either.
    assert_eq!(gate.forget_permits(2), 2);
    let lost = send(1);
    replica.seen.until_busy(1).await;
    lost.abort();
    gate.add_permits(1);
    assert_eq!(accepted(&world).await.status, StatusCode::OK);
}

#[tokio::test]
async fn refusals_because_of_a_limit_are_counted_by_client() {
    let gate = Arc::new(Semaphore::new(0));
    let nothing =
        |_: &http::request::Parts, _: &Bytes| Response::new(Full::default().map_err(|never| match never {}).boxed());
    let replica = TestReplica::start(Behaviour::Compute(Arc::clone(&gate), nothing)).await;
    let (world, _access) = world(vec![limited(&["*"], 1)], replica.address).await;
    let first = tokio::spawn(once(world.address(), request(1)));
    replica.seen.until_busy(1).await;
    for _ in 0..3 {
        assert_eq!(once(world.address(), request(1)).await.status, StatusCode::TOO_MANY_REQUESTS);
    }
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, StatusCode::OK);
    let mut registry = weir_ops::registry::with_process_metrics();
    world.gateways[0].gateway.register(&mut registry);
    let text = weir_ops::registry::text(&registry).unwrap();
    let counted = "weir_gateway_access_refused_total{client=\"a\",reason=\"over_limit\"} 3\n";
    assert!(text.contains(counted), "{text}");
}

/// Answers all requests with this head and part of a body, and keeps the connections open.
pub(super) async fn held(head: impl Into<String>) -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let head = head.into();
    let serving = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap_or(0);
            if request[..length].starts_with(b"GET /v2/health/ready") {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                continue;
            }
            stream.write_all(head.as_bytes()).await.unwrap();
            open.push(stream);
        }
    });
    (address, serving)
}

#[tokio::test]
async fn a_stream_and_a_websocket_count_until_they_end() {
    let stream =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                  Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nhello";
    let handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (head, lines) in [(stream, ""), (switch, handshake)] {
        let (address, serving) = held(head).await;
        let (world, _) = world(vec![limited(&[], 1)], address).await;
        let sent = format!("GET /events HTTP/1.1\r\nHost: {HOST}\r\nx-api-key: {}\r\n{lines}\r\n", key(1).text);
        let mut open = TcpStream::connect(world.address()).await.unwrap();
        open.write_all(sent.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        while !read.windows(5).any(|bytes| bytes == b"hello") {
            assert_ne!(open.read_buf(&mut read).await.unwrap(), 0, "{}", String::from_utf8_lossy(&read));
        }
        assert_eq!(once(world.address(), request(1)).await.status, StatusCode::TOO_MANY_REQUESTS, "{head}");
        drop(open);
        let after = tokio::time::timeout(TEST_TIMEOUT, until_open(&world, &sent)).await.unwrap();
        assert!(after.starts_with("HTTP/1.1 "), "{after}");
        serving.abort();
    }
}

/// Sends a request on new connections until it is not refused, and returns the beginning of the answer.
async fn until_open(world: &World, sent: &str) -> String {
    loop {
        let mut stream = TcpStream::connect(world.address()).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut read = [0; 1024];
        let length = stream.read(&mut read).await.unwrap();
        let answer = String::from_utf8_lossy(&read[..length]).into_owned();
        if !answer.starts_with("HTTP/1.1 429") {
            return answer;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
