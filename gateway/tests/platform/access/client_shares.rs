//! Shares of connections, open requests, bytes and wake-ups: a client that takes as much as it can leaves the others
//! what they need.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

use futures_util::future::join_all;
use http::Response;
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;
use weir_access::ClientLimits;

use super::*;
use crate::client::read;
use crate::world::TEST_TIMEOUT;

const PATH: &str = "/v2/models/digits/infer";

/// Open requests that a client alone may have: half of what one address may have with one connection.
const OPEN: usize = 512;

fn options(scope: Scope) -> Options {
    let keys = vec![written(1, "aggressor"), written(2, "other")];
    let operations = [Operation::Infer, Operation::Metadata, Operation::Pin];
    let mut options = Options::new("gateway", scope);
    options.access = Some(AccessControl::new(policy(keys, vec![rule("*", &["*"], &operations)])));
    options
}

/// Starts a gateway in front of a service with this many revisions, all at zero.
async fn world(options: Options, revisions: usize) -> World {
    let mut world = World::new(0).await;
    world.add(options).await;
    let mut weights = vec![0; revisions];
    weights[0] = 100;
    world.serve_limited(&weights, Some(2000), |_| {}).await;
    world
}

/// Starts a replica that sends one response for each permit of the semaphore.
async fn gated(world: &World) -> (TestReplica, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let answer = |_: &http::request::Parts, body: &Bytes| {
        Response::new(Full::new(body.clone()).map_err(|never| match never {}).boxed())
    };
    let replica = world.start(1, "a", Behaviour::Compute(Arc::clone(&gate), answer)).await;
    (replica, gate)
}

fn request(number: u8) -> Request<Full<Bytes>> {
    with(post(HOST, PATH, "x"), "x-api-key", &key(number).text)
}

fn assert_over(answer: &Answered, limit: &str) {
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.header("retry-after"), "1");
    assert!(answer.text().contains(limit), "{}", answer.text());
}

/// A connection from this address of the loopback network.
async fn connect_from(from: [u8; 4], to: SocketAddr) -> http1::SendRequest<Full<Bytes>> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::V4(Ipv4Addr::from(from)), 0).into()).unwrap();
    let stream = socket.connect(to).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_leaves_half_of_the_open_requests_to_others() {
    let mut options = options(Scope::Cluster);
    options.connections.per_client = 1;
    options.connections.total = 100;
    let world = world(options, 1).await;
    let (replica, gate) = gated(&world).await;
    let client = connect_h2(world.address()).await;
    let send = |number| {
        let mut client = client.clone();
        async move { read(client.send_request(request(number)).await.unwrap()).await.unwrap() }
    };
    let held: Vec<_> = (0..OPEN).map(|_| tokio::spawn(send(1))).collect();
    until("the aggressor's requests", || replica.requests() == OPEN).await;
    for _ in 0..3 {
        assert_over(&send(1).await, "its share of the gateway's open requests");
    }
    // The other client's requests go through the same proxy, on the same connection.
    let other = tokio::spawn(send(2));
    until("the other client's request", || replica.requests() == OPEN + 1).await;
    gate.add_permits(OPEN + 2);
    let answers = join_all(held).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().status == StatusCode::OK));
    assert_eq!(other.await.unwrap().status, StatusCode::OK);
    assert_eq!(send(1).await.status, StatusCode::OK);
}

#[tokio::test]
async fn requests_whose_clients_left_count_no_longer() {
    let mut options = options(Scope::Cluster);
    options.connections.per_client = 1;
    options.connections.total = 100;
    let world = world(options, 1).await;
    let (replica, gate) = gated(&world).await;
    for round in 1..=2 {
        let client = connect_h2(world.address()).await;
        let held = (0..OPEN).map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.send_request(request(1)).await })
        });
        let held: Vec<_> = held.collect();
        until("the aggressor's requests", || replica.requests() == round * OPEN).await;
        held.iter().for_each(tokio::task::JoinHandle::abort);
        world.activity(1, |activity| activity.in_flight == 0).await;
    }
    gate.add_permits(10 * OPEN);
    assert_eq!(once(world.address(), request(1)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_client_with_many_addresses_leaves_half_of_the_connections_to_others() {
    let mut options = options(Scope::Cluster);
    (options.connections.total, options.connections.per_client) = (16, 16);
    let world = world(options, 1).await;
    let (_replica, gate) = gated(&world).await;
    gate.add_permits(100);
    let mut held = Vec::new();
    for number in 0..10_u8 {
        let mut connection = connect_from([127, 0, 0, 10 + number], world.address()).await;
        let answer = read(connection.send_request(request(1)).await.unwrap()).await.unwrap();
        if number < 8 {
            assert_eq!(answer.status, StatusCode::OK);
        } else {
            assert_over(&answer, "its share of the gateway's connections");
            assert_eq!(answer.header("connection"), "close");
        }
        held.push(connection);
    }
    // Over HTTP/2, the connection ends once its requests are answered.
    let mut client = connect_h2(world.address()).await;
    assert_over(&read(client.send_request(request(1)).await.unwrap()).await.unwrap(), "connections");
    let closed = async {
        while client.ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, closed).await.unwrap();
    for number in 0..3_u8 {
        let mut connection = connect_from([127, 0, 0, 30 + number], world.address()).await;
        let answer = read(connection.send_request(request(2)).await.unwrap()).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        held.push(connection);
    }
    drop(held);
    // Closed connections make room.
    let answered = async { while once(world.address(), request(1)).await.status != StatusCode::OK {} };
    tokio::time::timeout(TEST_TIMEOUT, answered).await.unwrap();
}

/// Begins to send a body of 150 KiB for a model that the body names, and stops before its end.
async fn stop_within_body(address: SocketAddr, number: u8) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-length: 153601\r\n\r\n",
        key(number).text
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; 153_600]).await.unwrap();
    stream
}

#[tokio::test]
async fn a_client_leaves_half_of_the_bytes_to_others() {
    let mut options = options(Scope::Local);
    options.all_buffers = 1 << 20;
    let world = world(options, 1).await;
    let (_replica, gate) = gated(&world).await;
    gate.add_permits(100);
    let address = world.address();
    let held = join_all((0..3).map(|_| stop_within_body(address, 1))).await;
    // A body that arrives in pieces counts twice, because it is copied to find the model.
    let chat = |number: u8| {
        let body = format!("{{\"model\": \"digits\", \"pad\": \"{}\"}}", "x".repeat(90 << 10));
        with(post("localhost", "/v1/chat/completions", body), "x-api-key", &key(number).text)
    };
    let refused = async {
        loop {
            let answer = once(world.address(), chat(1)).await;
            if answer.status != StatusCode::OK {
                return answer;
            }
        }
    };
    let refused = tokio::time::timeout(TEST_TIMEOUT, refused).await.unwrap();
    assert_over(&refused, "its share of the gateway's memory for request bodies");
    assert_eq!(once(world.address(), chat(2)).await.status, StatusCode::OK);
    drop(held);
    let answered = async { while once(world.address(), chat(1)).await.status != StatusCode::OK {} };
    tokio::time::timeout(TEST_TIMEOUT, answered).await.unwrap();
}

/// Revisions that a client of weight one may wake at a time.
const WAKES: usize = 32;

#[tokio::test]
async fn a_client_wakes_a_limited_number_of_revisions_at_a_time() {
    let world = world(options(Scope::Cluster), WAKES + 2).await;
    let pinned = |number: u8, to: usize| {
        let name = revision(to as u32);
        once(world.address(), with(with(request(number), "weir-revision", name.as_str()), "weir-timeout", "60000"))
    };
    let mut waiting = Vec::new();
    for to in 1..=WAKES {
        waiting.push(tokio::spawn(pinned(1, to)));
        world.activity(to as u32, |activity| activity.queued == 1).await;
    }
    // A wake-up counts against its client even after the request that caused it was given up.
    waiting.pop().unwrap().abort();
    world.activity(WAKES as u32, |activity| activity.queued == 0).await;
    assert_over(&pinned(1, WAKES + 1).await, "too many services wait for their first replica");
    // The refused request appears in no count that the autoscaler reads.
    world.activity(WAKES as u32 + 1, |activity| (activity.arrivals, activity.woken) == (0, 0)).await;
    // A revision that is awake already takes more requests of any client, and another client wakes others.
    waiting.push(tokio::spawn(pinned(1, 2)));
    waiting.push(tokio::spawn(pinned(2, 2)));
    world.activity(2, |activity| activity.queued == 3).await;
    waiting.push(tokio::spawn(pinned(2, WAKES + 1)));
    world.activity(WAKES as u32 + 1, |activity| activity.queued == 1).await;
    let (_replica, gate) = gated(&world).await;
    gate.add_permits(1);
    waiting.push(tokio::spawn(pinned(1, WAKES + 2)));
    world.activity(WAKES as u32 + 2, |activity| activity.queued == 1).await;
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A rate is for all gateways together: each has its part, and all of it once it is alone.
#[tokio::test]
async fn gateways_divide_the_rate_of_a_client() {
    let limits = ClientLimits {
        clients: vec!["team-*".to_owned()],
        requests_per_minute: NonZeroU32::new(1),
        burst: NonZeroU32::new(4),
        ..ClientLimits::default()
    };
    let document = AccessDocument {
        keys: vec![written(1, "team-a"), written(2, "team-b")],
        rules: vec![rule("*", &["*"], &[])],
        limits: vec![limits],
        ..AccessDocument::default()
    };
    let mut world = World::new(0).await;
    for name in ["gateway-1", "gateway-2"] {
        let mut options = Options::new(name, Scope::Cluster);
        options.access = Some(AccessControl::new(Policy::of(std::slice::from_ref(&document)).unwrap()));
        world.add(options).await;
    }
    world.serve_limited(&[100], Some(2000), |_| {}).await;
    let (_replica, gate) = gated(&world).await;
    gate.add_permits(100);
    let accepted = async |number, address| {
        let mut count = 0;
        while once(address, request(number)).await.status == StatusCode::OK {
            count += 1;
        }
        count
    };
    for address in [world.gateways[0].address, world.gateways[1].address] {
        assert_eq!(accepted(1, address).await, 2);
    }
    world.gateways[1].resign();
    world.settled().await;
    // Before the second gateway left, both together had accepted the first client's whole burst.
    assert_eq!((accepted(1, world.address()).await, accepted(2, world.address()).await), (0, 4));
}
