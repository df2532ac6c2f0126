//! Tests of calls that control a service's servers: whether they are refused, for each way to address the service and
//! each protocol.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use weir_cluster::ControlRoutes;
use weir_gateway::{Options, Scope};
use weir_serve::known_hosts::KnownHosts;

use crate::client::{Answered, connect_h2, once, post, read, with};
use crate::grpc;
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, World};

/// HTTP calls that use a model or ask about it.
const USE: &[&str] = &[
    "/v2/models/digits/infer",
    "/v2/models/digits/versions/1/infer",
    "/v2/models/digits/generate",
    "/v2/models/digits/config",
    "/v2/models/digits/stats",
    "/v2/models/digits",
    "/v1/models/digits:predict",
];

/// HTTP calls that control a server or report all its models.
const CONTROL: &[&str] = &[
    "/v2/repository/index",
    "/v2/repository/models/digits/load",
    "/v2/repository/models/digits/unload",
    "/v2/%72epository/models/digits/load",
    "//v2/repository/models/digits/load",
    "/v2/models/../repository/index",
    "/v2/systemsharedmemory/region/a/register",
    "/v2/cudasharedmemory/status",
    "/v2/logging",
    "/v2/trace/setting",
    "/v2/models/digits/trace/setting",
    "/v2/models/stats",
];

/// The gRPC calls that use a model, and those that control a server.
const USE_RPCS: &[&str] = &["ModelInfer", "ModelMetadata", "ModelConfig", "ModelStatistics"];
const CONTROL_RPCS: &[&str] = &[
    "RepositoryIndex",
    "RepositoryModelLoad",
    "RepositoryModelUnload",
    "SystemSharedMemoryStatus",
    "SystemSharedMemoryRegister",
    "CudaSharedMemoryUnregister",
    "TraceSetting",
    "LogSettings",
];

/// Addresses of the service, each as a host and a path prefix.
const BY_ADDRESS: [(&str, &str); 2] = [(HOST, ""), ("localhost", "/serving/default/digits")];

async fn world(scope: Scope, control: ControlRoutes) -> (World, TestReplica) {
    let world = World::of(Options::new("gateway", scope)).await;
    world.serve(&[100], |route| route.control = control).await;
    let replica = world.start(1, "a", Behaviour::Echo(Duration::ZERO)).await;
    (world, replica)
}

/// Sends a request over HTTP/1.1 and over HTTP/2, checks that both get the same status, and returns the first answer.
async fn asked(world: &World, host: &str, path: &str) -> Answered {
    let answer = once(world.address(), post(host, path, "x")).await;
    let mut client = connect_h2(world.address()).await;
    let request = Request::post(format!("http://{host}{path}"));
    let request = request.body(Full::new(Bytes::from_static(b"x"))).unwrap();
    let http2 = read(client.send_request(request).await.unwrap()).await.unwrap();
    assert_eq!(answer.status, http2.status, "{host} {path}");
    answer
}

async fn called(world: &World, host: &str, path: &str) -> (String, String) {
    let request = grpc::call(host, path, Full::new(grpc::infer("digits")));
    let ended = grpc::send(world.address(), request).await;
    let (code, message) = grpc::status(&ended);
    (code.to_owned(), message)
}

#[tokio::test]
async fn control_is_closed_by_host_and_path() {
    for scope in [Scope::Local, Scope::Cluster] {
        let (world, replica) = world(scope, ControlRoutes::Closed).await;
        for (host, prefix) in BY_ADDRESS {
            for path in CONTROL {
                let answer = asked(&world, host, &format!("{prefix}{path}")).await;
                assert_eq!(answer.status, StatusCode::FORBIDDEN, "{host} {path}");
                let text = answer.text();
                assert!(text.contains("weir.dev/control-routes"), "{text}");
            }
            for rpc in CONTROL_RPCS {
                let path = format!("{prefix}{}/{rpc}", grpc::SERVICE);
                let (code, message) = called(&world, host, &path).await;
                assert_eq!(code, "7", "{host} {rpc}: {message}");
            }
        }
        assert_eq!(replica.requests(), 0);
    }
}

#[tokio::test]
async fn use_is_open_by_host_and_path() {
    for scope in [Scope::Local, Scope::Cluster] {
        let (world, replica) = world(scope, ControlRoutes::Closed).await;
        for (host, prefix) in BY_ADDRESS {
            for path in USE {
                let answer = asked(&world, host, &format!("{prefix}{path}")).await;
                assert_eq!(answer.status, StatusCode::OK, "{host} {path}");
            }
        }
        assert_eq!(replica.requests(), 2 * 2 * USE.len());
    }
}

#[tokio::test]
async fn calls_that_use_a_model_pass_over_grpc() {
    let (world, _replica) = World::with(Behaviour::Mirror).await;
    for (host, prefix) in [BY_ADDRESS[0], BY_ADDRESS[1], ("localhost", "")] {
        for rpc in USE_RPCS {
            let path = format!("{prefix}{}/{rpc}", grpc::SERVICE);
            let (code, message) = called(&world, host, &path).await;
            assert_eq!(code, "0", "{host} {path}: {message}");
        }
    }
}

#[tokio::test]
async fn a_service_may_open_control() {
    let (world, replica) = world(Scope::Cluster, ControlRoutes::Open).await;
    for (host, prefix) in BY_ADDRESS {
        for path in CONTROL {
            let answer = asked(&world, host, &format!("{prefix}{path}")).await;
            assert_eq!(answer.status, StatusCode::OK, "{host} {path}");
        }
    }
    assert_eq!(replica.requests(), 2 * 2 * CONTROL.len());
}

/// A server may refuse control calls because of its flags.
#[tokio::test]
async fn a_failed_control_call_is_no_failure_of_the_revision() {
    let (world, _replica) = World::with(Behaviour::Fail).await;
    world.serve(&[100], |route| route.control = ControlRoutes::Open).await;
    for path in ["/v2/repository/models/digits/load", "/v2/models/digits/infer"] {
        let answer = once(world.address(), post(HOST, path, "")).await;
        assert!(answer.status.is_server_error(), "{path}: {answer:?}");
    }
    world.activity(1, |activity| (activity.arrivals, activity.failed, activity.in_flight) == (2, 1, 0)).await;
}

/// A control call that names only a model is refused even if the service opens control calls.
#[tokio::test]
async fn control_is_closed_by_model_name() {
    for control in [ControlRoutes::Closed, ControlRoutes::Open] {
        let (world, replica) = world(Scope::Local, control).await;
        for path in CONTROL {
            if *path == "/v2/repository/index" {
                // The gateway answers the index itself, for all services of this machine.
                continue;
            }
            let answer = asked(&world, "localhost", path).await;
            let expected = [StatusCode::FORBIDDEN, StatusCode::NOT_IMPLEMENTED, StatusCode::NOT_FOUND];
            assert!(expected.contains(&answer.status), "{path}: {answer:?}");
        }
        for rpc in CONTROL_RPCS.iter().filter(|rpc| **rpc != "RepositoryIndex") {
            let path = format!("{}/{rpc}", grpc::SERVICE);
            let (code, message) = called(&world, "localhost", &path).await;
            assert!(code == "7" || code == "12", "{rpc}: {code} {message}");
        }
        assert_eq!(replica.requests(), 0);
    }
}

#[tokio::test]
async fn errors_over_http_in_a_cluster_contain_no_names() {
    let (world, _replica) = world(Scope::Cluster, ControlRoutes::Closed).await;
    for (name, value) in [("weir-revision", "nope"), ("weir-tag", "nope")] {
        let request = with(post(HOST, "/", ""), name, value);
        let answer = once(world.address(), request).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        let text = answer.text();
        assert!(!text.contains("predictor"), "{text}");
    }
    let answer = once(world.address(), post("digit.default", "/serving/a/b", "")).await;
    assert!(!answer.text().contains("digits"), "{}", answer.text());
}

#[tokio::test]
async fn errors_over_grpc_in_a_cluster_contain_no_names() {
    let (world, replica) = world(Scope::Cluster, ControlRoutes::Closed).await;
    let infer = format!("{}/ModelInfer", grpc::SERVICE);
    let by_path = format!("/serving/default/digit{infer}");
    for (host, path, header, secret) in [
        ("digit.default", &*infer, "x-none", "digits"),
        ("localhost", &*infer, "x-none", "digits"),
        ("localhost", &*by_path, "x-none", "digits"),
        ("localhost", "/other.Service/Method", "x-none", "digits"),
        // A caller that names the service knows the service, but must not learn the names of its revisions.
        (HOST, &*infer, "weir-revision", "predictor"),
        (HOST, &*infer, "weir-tag", "predictor"),
    ] {
        let mut client = connect_h2(world.address()).await;
        let call = grpc::call(host, path, Full::new(grpc::infer("other")));
        let response = client.send_request(with(call, header, "nope")).await;
        let ended = grpc::ended(response.unwrap()).await;
        let (code, message) = grpc::status(&ended);
        assert!(code == "5" || code == "12", "{host}{path}: {code} {message}");
        assert!(!message.contains(secret), "{host}{path}: {message}");
    }
    assert_eq!(replica.requests(), 0);
}

#[tokio::test]
async fn requests_of_foreign_pages_and_rebound_hosts_are_refused() {
    let mut options = Options::new("gateway", Scope::Local);
    options.hosts = KnownHosts::of("127.0.0.1".parse().unwrap(), &[]);
    let (world, replica) = World::of_with(options, Behaviour::Echo(Duration::ZERO)).await;
    let paths = [
        "/v2/models/digits/infer",
        "/serving/default/digits/v2/models/digits/infer",
        "/v2/repository/index",
        "/v2/health/live",
        "/",
    ];
    for path in paths {
        let rebound = once(world.address(), post("evil.example", path, "x")).await;
        assert_eq!(rebound.status, StatusCode::FORBIDDEN, "{path}");
        assert!(!rebound.text().contains("digits"), "{}", rebound.text());
        let sent = with(post("localhost", path, "x"), "origin", "http://evil.example");
        let sent = once(world.address(), sent).await;
        assert_eq!(sent.status, StatusCode::FORBIDDEN, "{path}");
    }
    let sent = with(post(HOST, "/", "x"), "origin", "null");
    assert_eq!(once(world.address(), sent).await.status, StatusCode::FORBIDDEN);
    assert_eq!(replica.requests(), 0);
    for host in [HOST, "localhost:1234", "127.0.0.1", "[::1]:80"] {
        let answer = once(world.address(), post(host, "/v2/models/digits/infer", "x")).await;
        assert_eq!(answer.status, StatusCode::OK, "{host}");
    }
}

/// Calls gRPC's health service; returns the status, and the messages that arrived within half a second.
async fn health(world: &World, host: &str, call: &str, service: &str) -> (String, Vec<u8>) {
    let mut client = connect_h2(world.address()).await;
    let mut message = vec![0, 0, 0, 0, service.len() as u8 + 2, 0x0a, service.len() as u8];
    message.extend_from_slice(service.as_bytes());
    let path = format!("/grpc.health.v1.Health/{call}");
    let request = grpc::call(host, &path, Full::new(Bytes::from(message)));
    let response = client.send_request(request).await.unwrap();
    let mut code = response.headers().get("grpc-status").cloned();
    let mut body = response.into_body();
    let mut data = Vec::new();
    let moment = Duration::from_millis(500);
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(moment, body.frame()).await {
        match frame.into_data() {
            Ok(piece) => data.extend_from_slice(&piece),
            Err(frame) => code = frame.into_trailers().unwrap().get("grpc-status").cloned(),
        }
    }
    let code = code.map_or("open".to_owned(), |code| code.to_str().unwrap().to_owned());
    (code, data)
}

#[tokio::test]
async fn the_gateway_answers_health_checks_of_load_balancers() {
    const SERVING: [u8; 7] = [0, 0, 0, 0, 2, 8, 1];
    const NOT_SERVING: [u8; 7] = [0, 0, 0, 0, 2, 8, 2];
    for scope in [Scope::Local, Scope::Cluster] {
        let (mut world, replica) = world(scope, ControlRoutes::Closed).await;
        for service in ["", "inference.GRPCInferenceService"] {
            let checked = health(&world, "10.1.2.3", "Check", service).await;
            assert_eq!(checked, ("0".to_owned(), SERVING.to_vec()), "{service}");
            let watched = health(&world, "10.1.2.3", "Watch", service).await;
            assert_eq!(watched, ("open".to_owned(), SERVING.to_vec()), "{service}");
        }
        assert_eq!(health(&world, "10.1.2.3", "Check", "x").await.0, "5");
        // SERVICE_UNKNOWN, as the protocol specifies, because the client may wait until the service exists.
        let unknown = health(&world, "10.1.2.3", "Watch", "x").await;
        assert_eq!(unknown, ("open".to_owned(), vec![0, 0, 0, 0, 2, 8, 3]));
        assert_eq!(replica.requests(), 0);
        // An open watch does not delay the shutdown.
        let mut client = connect_h2(world.address()).await;
        let message = Full::new(Bytes::from_static(&[0, 0, 0, 0, 0]));
        let request = grpc::call("lb", "/grpc.health.v1.Health/Watch", message);
        let response = client.send_request(request).await.unwrap();
        let running = &mut world.gateways[0];
        running.stop.cancel();
        let serving = running.serving.take().unwrap();
        tokio::time::timeout(Duration::from_secs(10), serving).await.unwrap().unwrap();
        let reply = response.into_body().collect().await.unwrap();
        assert_eq!(reply.trailers().unwrap()["grpc-status"], "14");
        // The watch reported SERVING, and NOT_SERVING at the shutdown.
        assert_eq!(reply.to_bytes()[..], [SERVING, NOT_SERVING].concat());
    }
}
