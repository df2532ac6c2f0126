//! Tests of access control: the clients that are admitted, by every way to address a service and over every protocol;
//! the content of a refusal; and the name of the client that a replica receives.

mod certificates;
mod client_shares;
mod concurrency;
mod given_up;
mod matrix;
mod metered;
mod peers;
mod shares;
mod smuggling;
mod tokens;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_access::{AccessDocument, NewKey, Operation, Policy, Rule, ServiceRules, WrittenKey};
use weir_cluster::{
    Apply, Batching, ComponentKind, ControlRoutes, Desired, Destination, Host, Mirror, Phase, Route, Split, Tag,
    Tagged, Workload,
};
use weir_gateway::{AccessControl, Options, Scope, ServerTls};

use crate::client::{Answered, connect_h2, once, post, with};
use crate::grpc;
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, World, both, replica, revision, service, until, workload};

/// Host of the service's tag.
const TAG_HOST: &str = "blue-digits-default.example.com";

/// Returns the key of a test's client, always the same one.
fn key(number: u8) -> NewKey {
    NewKey::from_random([number; NewKey::RANDOM])
}

fn written(number: u8, client: &str) -> WrittenKey {
    let key = key(number);
    WrittenKey {
        id: key.id.to_string(),
        client: client.to_owned(),
        sha256: key.digest.to_string(),
        expires: None,
        scopes: Vec::new(),
        roles: Vec::new(),
    }
}

fn rule(client: &str, services: &[&str], operations: &[Operation]) -> Rule {
    Rule {
        clients: vec![client.to_owned()],
        services: services.iter().map(|service| (*service).to_owned()).collect(),
        operations: operations.to_vec(),
        ..Rule::default()
    }
}

fn policy(keys: Vec<WrittenKey>, rules: Vec<Rule>) -> Policy {
    Policy::of(&[AccessDocument { keys, rules, ..AccessDocument::default() }]).unwrap()
}

/// A gateway with access control in front of one service with a replica, whose control calls are open.
struct Guarded {
    world: World,
    replica: TestReplica,
    access: Arc<AccessControl>,
}

impl Guarded {
    async fn new(scope: Scope, policy: Policy) -> Self {
        Self::with_route(scope, policy, |_| {}).await
    }

    async fn with_route(scope: Scope, policy: Policy, change: impl FnOnce(&mut Route)) -> Self {
        Self::with_port(Options::new("gateway", scope), policy, None, change).await
    }

    /// Adds a second port with TLS.
    async fn with_tls(policy: Policy, tls: ServerTls) -> Self {
        Self::with_port(Options::new("gateway", Scope::Cluster), policy, Some(tls), |_| {}).await
    }

    async fn with_port(
        mut options: Options,
        policy: Policy,
        tls: Option<ServerTls>,
        change: impl FnOnce(&mut Route),
    ) -> Self {
        let access = AccessControl::new(policy);
        options.access = Some(Arc::clone(&access));
        let mut world = World::new(0).await;
        world.add_with(options, tls).await;
        let replica = TestReplica::start(Behaviour::Mirror).await;
        world
            .serve(&[100], |route| {
                route.control = ControlRoutes::Open;
                let host = Host::parse(TAG_HOST).unwrap();
                route.tags = vec![Tagged { tag: Tag::new("blue").unwrap(), hosts: vec![host], revision: revision(1) }];
                change(route);
            })
            .await;
        world.put(1, "a", replica.address).await;
        Self { world, replica, access }
    }

    async fn infer(&self, key: Option<&str>) -> Answered {
        let mut request = post(HOST, "/v2/models/digits/infer", "x");
        if let Some(key) = key {
            request = with(request, "x-api-key", key);
        }
        once(self.world.address(), request).await
    }
}

#[tokio::test]
async fn a_key_is_removed_and_the_clients_name_goes_on() {
    let policy = policy(vec![written(1, "team-a")], vec![rule("team-a", &["*"], &[])]);
    let guarded = Guarded::new(Scope::Cluster, policy).await;
    let bearer = format!("Bearer {}", key(1).text);
    let request = with(post(HOST, "/v2/models/digits/infer", "x"), "authorization", &bearer);
    let answer = once(guarded.world.address(), with(request, "weir-client", "root")).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(guarded.infer(Some(&key(1).text)).await.status, StatusCode::OK);
    for head in guarded.replica.seen.heads.lock().iter() {
        assert_eq!(head.headers["weir-client"], "team-a");
        for name in ["authorization", "x-api-key"] {
            assert!(!head.headers.contains_key(name), "{head:?}");
        }
    }
}

/// Without access control, keys are forwarded for the servers to check, and a client still cannot claim a name.
#[tokio::test]
async fn without_access_control_keys_pass_and_names_do_not() {
    let (world, replica) = World::with(Behaviour::Echo(Duration::ZERO)).await;
    let request = with(post(HOST, "/v2/models/digits/infer", "x"), "authorization", "Bearer sk-1");
    assert_eq!(once(world.address(), with(request, "weir-client", "root")).await.status, StatusCode::OK);
    let head = replica.seen.heads.lock().pop().unwrap();
    assert_eq!(head.headers["authorization"], "Bearer sk-1");
    assert!(!head.headers.contains_key("weir-client"));
}

#[tokio::test]
async fn a_change_of_the_rules_holds_for_the_next_request() {
    let guarded = Guarded::new(Scope::Local, policy(vec![written(1, "a")], vec![rule("a", &["*"], &[])])).await;
    let text = key(1).text;
    assert_eq!(guarded.infer(Some(&text)).await.status, StatusCode::OK);
    guarded.access.replace(policy(Vec::new(), vec![rule("a", &["*"], &[])]));
    assert_eq!(guarded.infer(Some(&text)).await.status, StatusCode::UNAUTHORIZED);
    guarded.access.replace(policy(vec![written(1, "a")], Vec::new()));
    assert_eq!(guarded.infer(Some(&text)).await.status, StatusCode::FORBIDDEN);
    assert_eq!(guarded.replica.requests(), 1);
}

#[tokio::test]
async fn a_service_opens_itself_by_its_own_rules() {
    let anyone = Rule { anyone: true, operations: vec![Operation::Metadata], ..Rule::default() };
    let team = Rule { clients: vec!["b".to_owned()], ..Rule::default() };
    let rules = ServiceRules::new(vec![anyone, team]).unwrap();
    let keys = policy(vec![written(1, "a"), written(2, "b")], Vec::new());
    let guarded = Guarded::with_route(Scope::Local, keys, |route| route.access = rules).await;
    assert_eq!(guarded.infer(None).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(guarded.infer(Some(&key(1).text)).await.status, StatusCode::FORBIDDEN);
    assert_eq!(guarded.infer(Some(&key(2).text)).await.status, StatusCode::OK);
    let ready = Request::get("/v2/models/digits").header("host", HOST).body(Full::default()).unwrap();
    assert_eq!(once(guarded.world.address(), ready).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_refusal_says_how_to_authenticate_and_keeps_the_form_of_its_protocol() {
    let guarded = Guarded::new(Scope::Local, policy(vec![written(1, "a")], Vec::new())).await;
    let none = guarded.infer(None).await;
    assert_eq!((none.status, none.header("www-authenticate")), (StatusCode::UNAUTHORIZED, "Bearer"));
    let text = "{\"error\":\"a key is needed: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`\"}";
    assert_eq!(none.text(), text);
    let bad = guarded.infer(Some("weir_x")).await;
    assert_eq!(bad.header("www-authenticate"), "Bearer error=\"invalid_token\"");
    let chat = post("localhost", "/v1/chat/completions", "{\"model\":\"digits\"}");
    let chat = with(chat, "authorization", "Bearer sk-1");
    let answer = once(guarded.world.address(), chat).await;
    let error: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(error["error"]["code"], "invalid_api_key");
    assert_eq!(error["error"]["type"], "invalid_request_error");
}

/// A client that may not use a service, and one whose service does not exist, read the same challenge over HTTP.
#[tokio::test]
async fn a_forbidden_request_gets_a_challenge_in_every_form_of_http() {
    let guarded = Guarded::new(Scope::Local, policy(vec![written(1, "a")], Vec::new())).await;
    let chat = "{\"model\":\"digits\"}";
    for (host, path, body) in [
        (HOST, "/v2/models/digits/infer", "{}"),
        (HOST, "/v1/models/digits:predict", "{}"),
        ("localhost", "/v2/models/absent/infer", "{}"),
        ("localhost", "/openai/v1/chat/completions", chat),
        ("localhost", "/v1/chat/completions", chat),
    ] {
        let request = with(post(host, path, body), "authorization", &format!("Bearer {}", key(1).text));
        let answer = once(guarded.world.address(), request).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer error=\"insufficient_scope\"", "{path}");
    }
}

/// The gateway's own lists of all services contain only those that the caller may use.
#[tokio::test]
async fn lists_have_what_the_caller_may_use() {
    let rules = vec![rule("a", &["default/digits"], &[]), rule("b", &["default/other"], &[])];
    let guarded = Guarded::new(Scope::Local, policy(vec![written(1, "a"), written(2, "b")], rules)).await;
    for (number, listed) in [(1, serde_json::json!(["digits"])), (2, serde_json::json!([]))] {
        for path in ["/v1/models", "/v2/models", "/openai/v1/models"] {
            let request = Request::get(path).header("host", "localhost").header("x-api-key", key(number).text);
            let answer = once(guarded.world.address(), request.body(Full::default()).unwrap()).await;
            let list: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(list["models"], listed, "{path}");
        }
    }
    let none = once(guarded.world.address(), post("localhost", "/v2/repository/index", "")).await;
    assert_eq!(none.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn health_of_the_gateway_needs_no_key() {
    for (scope, paths) in [
        (Scope::Local, ["/", "/v2/health/live", "/v2/health/ready"].as_slice()),
        (Scope::Cluster, ["/", "/v2/health/live"].as_slice()),
    ] {
        let guarded = Guarded::new(scope, Policy::default()).await;
        for path in paths {
            let request = Request::get(*path).header("host", "10.0.0.1").header("authorization", "Bearer x");
            let answer = once(guarded.world.address(), request.body(Full::default()).unwrap()).await;
            assert_eq!(answer.status, StatusCode::OK, "{path}");
        }
        let code = rpc(&guarded.world, "10.0.0.1", "/grpc.health.v1.Health/Check", b"").await;
        assert_eq!(code, "0");
        let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        assert_eq!(rpc(&guarded.world, "10.0.0.1", reflection, b"\x3a\x01*").await, "16");
    }
}

async fn rpc(world: &World, host: &str, path: &str, message: &[u8]) -> String {
    let framed = [&[0, 0, 0, 0, message.len() as u8][..], message].concat();
    let request = grpc::call(host, path, Full::new(Bytes::from(framed)));
    let ended = grpc::send(world.address(), request).await;
    grpc::status(&ended).0.to_owned()
}

/// The gateway that owns a queue trusts the check of another gateway, but not the claims of a client.
#[tokio::test]
async fn a_request_that_is_handed_over_is_checked_once() {
    let access = || {
        let mut options = Options::new("x", Scope::Cluster);
        options.access = Some(AccessControl::new(policy(vec![written(1, "a")], vec![rule("a", &["*"], &[])])));
        options
    };
    let mut world = World::new(0).await;
    for name in ["gateway-0", "gateway-1"] {
        world.add(Options { name: name.into(), ..access() }).await;
    }
    let replica = TestReplica::start(Behaviour::Echo(Duration::ZERO)).await;
    // With one credit, one of the gateways owns the queue.
    world.serve_limited(&[100], Some(1), |_| {}).await;
    world.put(1, "a", replica.address).await;
    for running in &world.gateways {
        let request = with(post(HOST, "/v2/models/digits/infer", "x"), "x-api-key", &key(1).text);
        assert_eq!(once(running.address, request).await.status, StatusCode::OK);
    }
    for head in replica.seen.heads.lock().iter() {
        assert_eq!(head.headers["weir-client"], "a");
        assert!(!head.headers.contains_key("x-api-key"));
    }
    assert_eq!(replica.requests(), 2);
}

/// Headers with which a client claims to be a gateway have no effect, unless it connects from a gateway's address.
#[tokio::test]
async fn a_claim_to_be_a_gateway_opens_nothing() {
    let guarded = Guarded::new(Scope::Local, Policy::default()).await;
    let request = with(post(HOST, "/v2/models/digits/infer", "x"), "weir-hop", "1");
    let answer = once(guarded.world.address(), with(request, "weir-client", "root")).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(guarded.replica.requests(), 0);
}

/// A refused request wakes no service, and its body is not awaited.
#[tokio::test]
async fn a_refused_request_wakes_nothing_and_waits_for_no_body() {
    let guarded = Guarded::new(Scope::Local, policy(vec![written(1, "a")], Vec::new())).await;
    guarded.world.take(1, "a").await;
    for (host, path) in [(HOST, "/v2/models/digits/infer"), ("localhost", "/v1/chat/completions")] {
        let (sender, body) = tokio::sync::mpsc::channel::<Result<http_body::Frame<Bytes>, std::io::Error>>(1);
        let body = http_body_util::StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(body));
        let request = Request::post(path).header("host", host).header("content-length", "1000").body(body).unwrap();
        let mut client = crate::client::connect(guarded.world.address()).await;
        let response = tokio::time::timeout(Duration::from_secs(10), client.send_request(request)).await;
        assert_eq!(response.unwrap().unwrap().status(), StatusCode::UNAUTHORIZED, "{path}");
        drop(sender);
    }
    guarded.world.activity(1, |activity| activity.arrivals == 0 && activity.woken == 0).await;
}

/// A transformer reaches its predictor through the gateway without a key: its pod is recognized by its address. The
/// predictor's own pods, which have this machine's address too, open nothing.
#[tokio::test]
async fn a_transformer_needs_no_key_for_its_predictor() {
    let guarded = Guarded::new(Scope::Cluster, Policy::default()).await;
    assert_eq!(guarded.infer(None).await.status, StatusCode::UNAUTHORIZED);
    let transformer = service().of_component(ComponentKind::Transformer).unwrap();
    let revision = transformer.revision(1).unwrap();
    let workload = Workload { revision: revision.clone(), ..workload(1) };
    let route = Route::new(transformer.clone(), Destination::Split(Split::all(revision.clone())));
    let desired = Desired::new(transformer, vec![workload], Some(route)).unwrap();
    guarded.world.fake.apply(desired).await.unwrap();
    guarded.world.fake.put(&revision, replica("t", both(guarded.replica.address), Phase::Ready)).unwrap();
    guarded.world.settled().await;
    assert_eq!(guarded.infer(None).await.status, StatusCode::OK);
    let control = post(HOST, "/v2/repository/models/digits/load", "{}");
    assert_eq!(once(guarded.world.address(), control).await.status, StatusCode::UNAUTHORIZED);
}

/// A batch of the gateway has requests of one client, so that the client's name holds for the whole batch.
#[tokio::test]
async fn a_batch_has_requests_of_one_client() {
    let keys = vec![written(1, "a"), written(2, "b")];
    let batching = Batching { max_size: 2, max_latency: Duration::from_secs(60) };
    let policy = policy(keys, vec![rule("*", &["*"], &[])]);
    let guarded = Guarded::with_route(Scope::Local, policy, |route| route.batching = Some(batching)).await;
    // A batch that fails would be run again as single requests.
    let replica = guarded.world.start(1, "a", Behaviour::Hang).await;
    let address = guarded.world.address();
    let predict = |number: u8| {
        let request = post(HOST, "/v1/models/digits:predict", "{\"instances\":[[1]]}");
        tokio::spawn(once(address, with(request, "x-api-key", &key(number).text)))
    };
    let clients = [predict(1), predict(2), predict(1), predict(2)];
    // If the requests formed other batches, or none, the replica would get another number of requests.
    until("both batches", || replica.requests() >= 2).await;
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    let heads = replica.seen.heads.lock();
    assert_eq!(heads.len(), 2);
    let names: BTreeSet<_> = heads.iter().map(|head| head.headers["weir-client"].to_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["a", "b"]));
}

#[tokio::test]
async fn a_mirror_gets_no_key_either() {
    let policy = policy(vec![written(1, "a")], vec![rule("a", &["*"], &[])]);
    let guarded = Guarded::new(Scope::Local, policy).await;
    let mirror = TestReplica::start(Behaviour::Mirror).await;
    let copies = Mirror { revision: revision(2), percent: 100 };
    guarded.world.serve(&[100, 0], |route| route.mirror = Some(copies)).await;
    guarded.world.put(2, "b", mirror.address).await;
    assert_eq!(guarded.infer(Some(&key(1).text)).await.status, StatusCode::OK);
    until("the copy", || mirror.requests() == 1).await;
    let head = mirror.seen.heads.lock().pop().unwrap();
    assert_eq!(head.headers["weir-client"], "a");
    assert!(!head.headers.contains_key("x-api-key"));
}

/// The handshake of a WebSocket is checked as any other request; after a refusal the connection closes.
#[tokio::test]
async fn a_websocket_needs_a_key() {
    let policy = policy(vec![written(1, "a")], vec![rule("a", &["*"], &[Operation::Metadata])]);
    let guarded = Guarded::new(Scope::Local, policy).await;
    for (key, status) in [(String::new(), "401"), (format!("x-api-key: {}\r\n", key(1).text), "403")] {
        let mut stream = TcpStream::connect(guarded.world.address()).await.unwrap();
        let head = format!(
            "GET /v2 HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{key}\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert_eq!(guarded.replica.requests(), 0);
}
