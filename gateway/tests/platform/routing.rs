//! Tests of routing by host, path, model, split and headers.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::Semaphore;
use weir_cluster::{Apply, Desired, Destination, Route, ServiceName, Tag, Tagged};

use crate::client::{Client, once, post, with};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World, revision};

const ECHO: Behaviour = Behaviour::Echo(Duration::ZERO);

#[tokio::test]
async fn a_service_is_reached_by_host_path_and_model() {
    let (world, replica) = World::with(ECHO).await;
    for (host, path, seen) in [
        (HOST, "/v2/models/digits/infer?x=1", "/v2/models/digits/infer?x=1"),
        ("localhost", "/serving/default/digits/v2/models/digits/infer", "/v2/models/digits/infer"),
        ("localhost", "/v2/models/digits/infer", "/v2/models/digits/infer"),
    ] {
        let answer = once(world.address(), post(host, path, "body")).await;
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, "body"), "{host} {path}");
        assert_eq!(answer.header("weir-revision"), "digits-predictor-00001");
        assert_eq!(answer.header("x-request-id").len(), 32);
        let timing = answer.header("server-timing");
        assert!(timing.starts_with("queue;dur=1.") && timing.ends_with(", compute;dur=2.000"), "{timing}");
        let head = replica.seen.heads.lock().pop().unwrap();
        assert_eq!(head.uri.to_string(), seen);
        assert_eq!(head.headers["host"], host);
        assert!(head.headers.contains_key("weir-waited-us"));
    }
    assert_eq!(replica.requests(), 3);
}

#[tokio::test]
async fn headers_of_a_connection_and_of_responses_reach_no_replica() {
    let (world, replica) = World::with(ECHO).await;
    let names = ["keep-alive", "weir-unserved", "weir-refused"];
    let mut request = post(HOST, "/", "");
    for name in names {
        request = with(request, name, "trailers");
    }
    let answer = once(world.address(), request).await;
    assert_eq!(answer.status, StatusCode::OK);
    let head = replica.seen.heads.lock().pop().unwrap();
    for name in names {
        assert!(!head.headers.contains_key(name), "{head:?}");
    }
}

#[tokio::test]
async fn a_request_id_is_kept() {
    let (world, replica) = World::with(ECHO).await;
    let request = with(post(HOST, "/", ""), "x-request-id", "mine");
    assert_eq!(once(world.address(), request).await.header("x-request-id"), "mine");
    let head = replica.seen.heads.lock().pop().unwrap();
    assert_eq!(head.headers["x-request-id"], "mine");
}

#[tokio::test]
async fn not_found_errors_list_the_known_services() {
    let world = World::serving().await;
    let answer = once(world.address(), post("other", "/v1/chat", "unread body")).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(answer.header("content-type"), "application/json");
    let text = answer.text();
    assert!(text.contains("known services: default/digits"), "{text}");
    let answer = once(world.address(), post("localhost", "/v2/models/other/infer", "")).await;
    assert!(answer.text().contains("known services: default/digits"), "{answer:?}");
}

#[tokio::test]
async fn the_server_is_ready_once_all_declared_services_are() {
    let other = weir_cluster::ServiceName::new("default", "other").unwrap();
    let digits = crate::world::service();
    let both = Arc::new([digits.clone(), other].into());
    let (declare, declared) = tokio::sync::watch::channel(both);
    let mut options = weir_gateway::Options::new("one", weir_gateway::Scope::Local);
    options.declared = Some(declared);
    let (world, _replica) = World::of_with(options, ECHO).await;
    let ready = async || {
        let mut request = post("localhost", "/v2/health/ready", "");
        *request.method_mut() = http::Method::GET;
        once(world.address(), request).await.status
    };
    assert_eq!(ready().await, StatusCode::SERVICE_UNAVAILABLE);
    declare.send_replace(Arc::new([digits].into()));
    assert_eq!(ready().await, StatusCode::OK);
    declare.send_replace(Arc::default());
    assert_eq!(ready().await, StatusCode::OK);
}

#[tokio::test]
async fn calls_to_the_server_are_answered_for_all_services() {
    let world = World::new(1).await;
    let replica = TestReplica::start(ECHO).await;
    let get = |path: &str| {
        let mut request = post("localhost", path, "");
        *request.method_mut() = http::Method::GET;
        request
    };
    let address = world.address();
    // The gateway does not know any service yet.
    let early = once(address, get("/v2/health/ready")).await;
    assert_eq!(early.status, StatusCode::SERVICE_UNAVAILABLE);
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", replica.address).await;
    assert_eq!(once(address, get("/v2/health/live")).await.text(), "{\"live\":true}");
    assert_eq!(once(address, get("/v2/health/ready")).await.text(), "{\"ready\":true}");
    assert_eq!(once(address, get("/v2/models")).await.text(), "{\"models\":[\"digits\"]}");
    let index = once(address, post("localhost", "/v2/repository/index", "")).await;
    assert_eq!(index.text(), "[{\"name\":\"digits\",\"state\":\"READY\"}]");
    let load = once(address, post("localhost", "/v2/repository/models/digits/load", "")).await;
    assert_eq!(load.status, StatusCode::NOT_IMPLEMENTED);
    for wrong in [post("localhost", "/v2/health/live", ""), get("/v2/repository/index")] {
        let answer = once(address, wrong).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.text(), "{\"error\":\"Method Not Allowed\"}");
    }
    assert_eq!(replica.requests(), 0);
}

#[tokio::test]
async fn traffic_is_split_by_weight_and_headers_override_it() {
    let world = World::new(1).await;
    let (old, new) = (TestReplica::start(ECHO).await, TestReplica::start(ECHO).await);
    let tagged = || Tagged { tag: Tag::new("canary").unwrap(), hosts: Vec::new(), revision: revision(2) };
    world.serve(&[80, 20], |route| route.tags.push(tagged())).await;
    world.put(1, "a", old.address).await;
    world.put(2, "b", new.address).await;
    let mut client = Client::new(world.address());
    for _ in 0..2000 {
        client.send(post(HOST, "/", "")).await.unwrap();
    }
    let share = new.requests() as f64 / 20.0;
    assert!((17.0..=23.0).contains(&share), "{share} %");
    assert_eq!(old.requests() + new.requests(), 2000);
    // One connection is for the readiness probe, and one for all requests.
    let connections = old.seen.connections.load(std::sync::atomic::Ordering::SeqCst);
    assert!(connections <= 2, "{connections} connections for one client");
    for (name, value, wanted) in [
        ("weir-tag", "canary", "digits-predictor-00002"),
        ("weir-revision", "digits-predictor-00001", "digits-predictor-00001"),
    ] {
        let request = with(post(HOST, "/", ""), name, value);
        let answer = client.send(request).await.unwrap();
        assert_eq!(answer.header("weir-revision"), wanted);
    }
    let unknown = with(post(HOST, "/", ""), "weir-tag", "unknown");
    let answer = client.send(unknown).await.unwrap();
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(answer.text().contains("canary"), "{answer:?}");
}

#[tokio::test]
async fn the_snapshot_shows_routes_and_queues() {
    let world = World::new(1).await;
    world.serve_limited(&[100], Some(3), |_| {}).await;
    let _replica = world.start(1, "a", ECHO).await;
    once(world.address(), post(HOST, "/", "")).await;
    let state = world.gateways[0].gateway.describe();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["routes"][0]["service"], "default/digits");
    assert_eq!(state["revisions"][0]["arrivals"], 1);
    let endpoint = serde_json::json!({"name": "a", "in_flight": 0, "credits": 3});
    assert_eq!(state["revisions"][0]["replicas"][0], endpoint);
    let mut registry = weir_ops::registry::Registry::default();
    world.gateways[0].gateway.register(&mut registry);
    let text = weir_ops::registry::text(&registry).unwrap();
    let line = "weir_revision_requests_total{namespace=\"default\",service=\"digits\",\
                revision=\"digits-predictor-00001\"} 1";
    assert!(text.contains(line), "{text}");
}

/// A deleted service's pods are still ready when the route is removed, and the gateway learns of the route first.
#[tokio::test]
async fn a_removed_route_fails_queued_requests_and_lets_those_at_replicas_finish() {
    let gate = Arc::new(Semaphore::new(0));
    let behaviour = Behaviour::Compute(Arc::clone(&gate), |_, _| http::Response::default());
    let (world, replica) = World::with_limited(behaviour).await;
    let first = tokio::spawn(once(world.address(), post(HOST, "/", "")));
    replica.seen.until_busy(1).await;
    let second = tokio::spawn(once(world.address(), post(HOST, "/", "")));
    world.activity(1, |activity| activity.queued == 1).await;
    world.remove_route().await;
    let second = tokio::time::timeout(TEST_TIMEOUT, second).await.unwrap().unwrap();
    assert_eq!(second.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(second.text().contains("was removed"), "{second:?}");
    // The replica is drained once no report shows its request.
    world.activity(1, |activity| activity.queued == 0 && activity.replica_loads["a"].requests == 1).await;
    gate.add_permits(1);
    let first = tokio::time::timeout(TEST_TIMEOUT, first).await.unwrap().unwrap();
    assert_eq!((first.status, replica.requests()), (StatusCode::OK, 1));
    let mut reports = world.gateways[0].gateway.reports();
    let without = reports.wait_for(|report| report.revisions.is_empty());
    assert!(tokio::time::timeout(TEST_TIMEOUT, without).await.is_ok());
}

/// Adds a stopped service of another team, whose model has the name `digits` too.
async fn add_stopped(world: &World) {
    let service = ServiceName::new("other", "digits").unwrap();
    let mut route = Route::new(service.clone(), Destination::Nowhere("the service is stopped".into()));
    route.model = Some("digits".into());
    world.fake.apply(Desired::new(service, Vec::new(), Some(route)).unwrap()).await.unwrap();
    world.settled().await;
}

#[tokio::test]
async fn a_model_of_two_services_is_listed_once_and_a_stopped_service_is_not_waited_for() {
    let (world, _replica) = World::with(ECHO).await;
    add_stopped(&world).await;
    let client = |method: &'static str, path: &'static str| {
        let request = http::Request::builder().method(method).uri(path).header("host", "localhost");
        once(world.address(), request.body(http_body_util::Full::default()).unwrap())
    };
    assert_eq!(client("GET", "/v2/health/ready").await.text(), "{\"ready\":true}");
    assert_eq!(client("GET", "/v2/models").await.text(), "{\"models\":[\"digits\"]}");
    let openai = client("GET", "/v1/models").await;
    assert_eq!(openai.text().matches("\"id\":\"digits\"").count(), 1, "{openai:?}");
    let index = client("POST", "/v2/repository/index").await;
    assert_eq!(index.text().matches("\"name\":\"digits\"").count(), 1, "{index:?}");
    assert!(index.text().contains("several services have this model"), "{index:?}");
}

#[tokio::test]
async fn only_requests_that_match_no_revision_count_as_unrouted() {
    let world = World::serving().await;
    let unrouted = || world.counter("weir_gateway_unrouted_total");
    let infer = "/v2/models/digits/infer";
    let chat = "/openai/v1/chat/completions";
    let get = http::Request::get(chat).header("host", "localhost").body(http_body_util::Full::default()).unwrap();
    for (request, status, counted) in [
        (post("other.default", "/", ""), StatusCode::NOT_FOUND, 1),
        (post("localhost", "/v2/models/other/infer", ""), StatusCode::NOT_FOUND, 1),
        (with(post("localhost", infer, ""), "weir-revision", "other"), StatusCode::NOT_FOUND, 1),
        (post("localhost", chat, r#"{"model":"other"}"#), StatusCode::NOT_FOUND, 1),
        (with(post("localhost", chat, r#"{"model":"digits"}"#), "weir-tag", "other"), StatusCode::NOT_FOUND, 1),
        (post("localhost", chat, "no JSON"), StatusCode::BAD_REQUEST, 0),
        (get, StatusCode::METHOD_NOT_ALLOWED, 0),
    ] {
        let (before, path) = (unrouted(), request.uri().path().to_owned());
        let answer = once(world.address(), request).await;
        assert_eq!((answer.status, unrouted() - before), (status, counted), "{path}: {answer:?}");
    }
}
