//! Limits of a client's bytes and tokens: a request's cost is taken once it is known, and refuses later requests.

use std::net::SocketAddr;
use std::num::NonZeroU64;

use http::Response;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use weir_access::ClientLimits;

use super::concurrency::{held, world};
use super::*;
use crate::replica::{Compute, full};
use crate::world::TEST_TIMEOUT;

const CHAT: &str = "/v1/chat/completions";

/// Tokens of one answer of the test's model.
const USAGE: &str = r#"{"prompt_tokens":100,"completion_tokens":400,"total_tokens":500}"#;

fn bytes_per_minute(services: &[&str], bytes: u64) -> ClientLimits {
    ClientLimits { bytes_per_minute: NonZeroU64::new(bytes), ..limits(services) }
}

fn tokens_per_minute(services: &[&str], tokens: u64) -> ClientLimits {
    ClientLimits { tokens_per_minute: NonZeroU64::new(tokens), ..limits(services) }
}

fn limits(services: &[&str]) -> ClientLimits {
    let services = services.iter().map(|service| (*service).to_owned()).collect();
    ClientLimits { clients: vec!["a".to_owned()], services, ..ClientLimits::default() }
}

async fn computing(compute: Compute) -> TestReplica {
    TestReplica::start(Behaviour::Compute(Arc::new(Semaphore::new(1)), compute)).await
}

async fn send(address: SocketAddr, number: u8, path: &str, body: impl Into<Bytes>) -> Answered {
    let request = with(post(HOST, path, body), "x-api-key", &key(number).text);
    once(address, with(request, "accept-encoding", "gzip")).await
}

/// Checks that a request was refused because of this limit, and returns the seconds of `retry-after`.
fn refused(answer: &Answered, limit: &str) -> u32 {
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{}", answer.text());
    assert!(answer.text().contains(&format!("limit {limit}")), "{}", answer.text());
    answer.header("retry-after").parse().unwrap()
}

#[tokio::test]
async fn bytes_of_requests_and_responses_count_for_their_client_and_service() {
    let replica = TestReplica::start(Behaviour::Echo(Duration::ZERO)).await;
    // A full bucket has 10000 bytes, and an echo takes 6000 in each direction.
    for services in [&[][..], &["default/*"]] {
        let (world, _access) = world(vec![bytes_per_minute(services, 60_000)], replica.address).await;
        let echo = |number| send(world.address(), number, "/v2/models/digits/infer", vec![b'x'; 6000]);
        assert_eq!(echo(1).await.status, StatusCode::OK);
        let seconds = refused(&echo(1).await, "bytesPerMinute");
        assert!((1..=2).contains(&seconds), "{seconds}");
        assert_eq!(echo(2).await.status, StatusCode::OK);
    }
    let (world, _access) = world(vec![bytes_per_minute(&["other/*"], 1)], replica.address).await;
    for _ in 0..3 {
        assert_eq!(send(world.address(), 1, "/v2/models/digits/infer", "x").await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_body_that_is_sent_on_as_it_arrives_counts_as_well() {
    let ok: Compute = |_, _| Response::new(full("ok"));
    let replica = computing(ok).await;
    let access = AccessControl::new(policy_with(bytes_per_minute(&[], 6_000_000)));
    let mut options = Options::new("gateway", Scope::Cluster);
    (options.access, options.request_buffer) = (Some(access), 1000);
    let mut world = World::new(0).await;
    world.add(options).await;
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", replica.address).await;
    let upload = |size| send(world.address(), 1, "/v2/models/digits/infer", vec![b'x'; size]);
    assert_eq!(upload(500_000).await.status, StatusCode::OK);
    assert_eq!(upload(700_000).await.status, StatusCode::OK);
    refused(&upload(1).await, "bytesPerMinute");
}

fn policy_with(limits: ClientLimits) -> Policy {
    let (keys, rules) = (vec![written(1, "a"), written(2, "b")], vec![rule("*", &["*"], &[])]);
    Policy::of(&[AccessDocument { keys, rules, limits: vec![limits], ..AccessDocument::default() }]).unwrap()
}

fn answer_of_chat(_: &http::request::Parts, body: &Bytes) -> Response<crate::replica::TestBody> {
    let chunk = r#"{"choices":[{"delta":{"content":"a"}}],"usage":null}"#;
    let (kind, text) = if body.windows(6).any(|part| part == b"stream") {
        let end = format!("data: {{\"choices\":[],\"usage\":{USAGE}}}\n\ndata: [DONE]\n\n");
        ("text/event-stream", format!("data: {chunk}\n\n").repeat(3) + &end)
    } else {
        ("application/json", format!(r#"{{"object":"chat.completion","usage":{USAGE}}}"#))
    };
    Response::builder().header("content-type", kind).body(full(text)).unwrap()
}

#[tokio::test]
async fn tokens_of_answers_and_streams_refuse_the_next_request_in_openais_form() {
    let replica = computing(answer_of_chat).await;
    for body in [r#"{"model":"digits"}"#, r#"{"model":"digits","stream":true}"#] {
        // A full bucket has 600 tokens: the first answer leaves 100, and the second one is a debt of 400.
        let (world, _access) = world(vec![tokens_per_minute(&[], 3600)], replica.address).await;
        let chat = |number| send(world.address(), number, CHAT, body);
        for _ in 0..2 {
            assert_eq!(chat(1).await.status, StatusCode::OK);
        }
        let over = chat(1).await;
        let seconds = refused(&over, "tokensPerMinute");
        assert!((5..=7).contains(&seconds), "{seconds}");
        let error: serde_json::Value = serde_json::from_slice(&over.body).unwrap();
        let error = &error["error"];
        assert_eq!((&error["type"], &error["code"]), (&"tokens".into(), &"rate_limit_exceeded".into()));
        assert_eq!(chat(2).await.status, StatusCode::OK);
        assert_eq!(replica.seen.heads.lock().last().unwrap().headers["accept-encoding"], "gzip");
    }
    // Tokens are read from the response, so the server may not compress it.
    assert_eq!(replica.seen.heads.lock()[0].headers["accept-encoding"], "identity");
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_pays_for_the_events_that_it_got() {
    let events = "data: {}\n\n".repeat(60);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let (address, serving) = held(format!("{head}{:x}\r\n{events}\r\n", events.len())).await;
    // A full bucket has 50 tokens.
    let (world, _access) = world(vec![tokens_per_minute(&[], 300)], address).await;
    let mut client = crate::client::connect(world.address()).await;
    let request = with(post(HOST, CHAT, r#"{"model":"digits"}"#), "x-api-key", &key(1).text);
    let mut response = client.send_request(request).await.unwrap();
    let mut read = 0;
    while read < events.len() {
        read += response.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    drop((response, client));
    let charged = async {
        loop {
            // The next request may be accepted before the previous stream is charged, and its stream never ends: the
            // wait is limited.
            let next = tokio::time::timeout(Duration::from_millis(200), send(world.address(), 1, CHAT, "{}"));
            if let Ok(answer) = next.await {
                return refused(&answer, "tokensPerMinute");
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, charged).await.unwrap();
    serving.abort();
}

#[tokio::test]
async fn a_call_of_grpc_above_its_bytes_is_exhausted() {
    let guarded = Guarded::new(Scope::Local, policy_with(bytes_per_minute(&[], 60))).await;
    let mut client = connect_h2(guarded.world.address()).await;
    for expected in ["0", "8"] {
        let call = grpc::call(HOST, "/inference.GRPCInferenceService/ModelInfer", Full::new(grpc::infer("digits")));
        let ended = grpc::ended(client.send_request(with(call, "x-api-key", &key(1).text)).await.unwrap()).await;
        assert_eq!(grpc::status(&ended).0, expected);
    }
}

#[tokio::test]
async fn bytes_of_a_websocket_count_while_it_is_open() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                  Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nhello";
    let (address, serving) = held(switch).await;
    let (world, _access) = world(vec![bytes_per_minute(&[], 600_000)], address).await;
    let mut open = TcpStream::connect(world.address()).await.unwrap();
    let handshake = format!(
        "GET /events HTTP/1.1\r\nHost: {HOST}\r\nx-api-key: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        key(1).text
    );
    open.write_all(handshake.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"hello") {
        assert_ne!(open.read_buf(&mut read).await.unwrap(), 0, "{}", String::from_utf8_lossy(&read));
    }
    open.write_all(&vec![0; 300_000]).await.unwrap();
    let charged = async {
        while send(world.address(), 1, "/v1/models/x", "").await.status != StatusCode::TOO_MANY_REQUESTS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, charged).await.unwrap();
    drop(open);
    serving.abort();
}
