//! Tests of every operation, by every way to address a service, over every protocol: which component answers, and which
//! calls are refused.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use weir_cluster::ControlRoutes;
use weir_gateway::{Options, Scope};

use crate::client::{connect, connect_h2, read};
use crate::grpc;
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, World};

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The service's replica answered.
    Replica,
    /// The gateway answered for itself.
    Gateway,
    /// A health call, which the gateway answered for the service, or the service's replica answered.
    Service,
    /// Refused because the call controls a server.
    Closed,
    /// Refused because the call needs a single server but names no service.
    OneService,
    /// Refused because no service has this address.
    Unknown,
}

use End::{Closed, Gateway, OneService, Replica, Service, Unknown};

/// An HTTP call: its method, its path, its result by the service's host or path, and its result by the model's name
/// alone.
type HttpCall = (Method, &'static str, End, End);

const HTTP_CALLS: &[HttpCall] = &[
    (Method::POST, "/v2/models/digits/infer", Replica, Replica),
    (Method::POST, "/v2/models/digits/versions/1/infer", Replica, Replica),
    (Method::POST, "/v2/models/digits/generate", Replica, Replica),
    (Method::POST, "/v2/models/digits/generate_stream", Replica, Replica),
    (Method::POST, "/v1/models/digits:predict", Replica, Replica),
    (Method::GET, "/v2/models/digits", Replica, Replica),
    (Method::GET, "/v2/models/digits/config", Replica, Replica),
    (Method::GET, "/v2/models/digits/stats", Replica, Replica),
    (Method::GET, "/v2/models/digits/versions/1/stats", Replica, Replica),
    (Method::GET, "/v2/models/digits/ready", Service, Service),
    (Method::GET, "/v1/models/digits", Service, Service),
    (Method::GET, "/", Replica, Gateway),
    (Method::GET, "/v2", Replica, Gateway),
    (Method::GET, "/v2/models", Replica, Gateway),
    (Method::GET, "/v1/models", Replica, Gateway),
    (Method::GET, "/v2/health/live", Service, Gateway),
    (Method::GET, "/v2/health/ready", Service, Gateway),
    (Method::POST, "/v2/repository/index", Closed, Gateway),
    (Method::POST, "/v2/repository/models/digits/load", Closed, OneService),
    (Method::POST, "/v2/repository/models/digits/unload", Closed, OneService),
    (Method::POST, "/v2/repository/r/models/digits/load", Closed, OneService),
    (Method::GET, "/v2/models/stats", Closed, OneService),
    (Method::GET, "/v2/models/stats/", Closed, OneService),
    (Method::GET, "/v2/models/%73tats", Closed, OneService),
    (Method::GET, "/v2/logging", Closed, OneService),
    (Method::POST, "/v2/logging", Closed, OneService),
    (Method::GET, "/v2/trace/setting", Closed, OneService),
    (Method::POST, "/v2/models/digits/trace/setting", Closed, OneService),
    (Method::GET, "/v2/systemsharedmemory/status", Closed, OneService),
    (Method::POST, "/v2/systemsharedmemory/region/a/register", Closed, OneService),
    (Method::POST, "/v2/cudasharedmemory/unregister", Closed, OneService),
    (Method::POST, "/v2/%72epository/index", Closed, OneService),
    (Method::POST, "//v2/repository/index", Closed, OneService),
    (Method::POST, "/v2/models/../repository/index", Closed, OneService),
    (Method::POST, "/V2/REPOSITORY/index", Closed, OneService),
    // A container may have its own paths.
    (Method::POST, "/openai/v1/audio", Replica, OneService),
    (Method::POST, "/v2/models/other/infer", Replica, Unknown),
];

/// A gRPC call: its path, its message, its result by the service's host or path, and its result by the model's name
/// alone.
type GrpcCall = (&'static str, &'static [u8], End, End);

/// Messages with `digits` in the first field, in the second field, and in no field.
const FIRST: &[u8] = b"\x0a\x06digits";
const SECOND: &[u8] = b"\x12\x06digits";
const NONE: &[u8] = b"";

/// Request for the list of services, for gRPC reflection.
const LIST: &[u8] = b"\x3a\x01*";

const GRPC_CALLS: &[GrpcCall] = &[
    ("/inference.GRPCInferenceService/ModelInfer", FIRST, Replica, Replica),
    ("/inference.GRPCInferenceService/ModelStreamInfer", FIRST, Replica, Replica),
    ("/inference.GRPCInferenceService/ModelMetadata", FIRST, Replica, Replica),
    ("/inference.GRPCInferenceService/ModelConfig", FIRST, Replica, Replica),
    ("/inference.GRPCInferenceService/ModelStatistics", FIRST, Replica, Replica),
    ("/inference.GRPCInferenceService/ModelStatistics", NONE, Closed, OneService),
    ("/inference.GRPCInferenceService/ModelStatistics", b"\x12\x011", Closed, OneService),
    // A server uses the last value of a repeated field.
    ("/inference.GRPCInferenceService/ModelStatistics", b"\x0a\x06digits\x0a\x00", Closed, OneService),
    ("/inference.GRPCInferenceService/ModelReady", FIRST, Service, Service),
    ("/inference.GRPCInferenceService/ServerLive", NONE, Service, Gateway),
    ("/inference.GRPCInferenceService/ServerReady", NONE, Service, Gateway),
    ("/inference.GRPCInferenceService/ServerMetadata", NONE, Replica, Gateway),
    ("/inference.GRPCInferenceService/RepositoryIndex", NONE, Closed, Gateway),
    ("/inference.GRPCInferenceService/RepositoryModelLoad", SECOND, Closed, OneService),
    ("/inference.GRPCInferenceService/RepositoryModelUnload", SECOND, Closed, OneService),
    ("/inference.GRPCInferenceService/TraceSetting", SECOND, Closed, OneService),
    ("/inference.GRPCInferenceService/LogSettings", NONE, Closed, OneService),
    ("/inference.GRPCInferenceService/SystemSharedMemoryStatus", NONE, Closed, OneService),
    ("/inference.GRPCInferenceService/SystemSharedMemoryRegister", NONE, Closed, OneService),
    ("/inference.GRPCInferenceService/CudaSharedMemoryUnregister", NONE, Closed, OneService),
    ("/grpc.health.v1.Health/Check", NONE, Service, Gateway),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", LIST, Replica, Gateway),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", LIST, Replica, Gateway),
    ("/my.Service/Method", NONE, Replica, OneService),
    ("/inference.GRPCInferenceService/Method", NONE, Replica, OneService),
];

/// A host and a path prefix.
type Address = (&'static str, &'static str);

const BY_HOST: Address = (HOST, "");
const BY_PATH: Address = ("localhost", "/serving/default/digits");
const BY_MODEL: Address = ("localhost", "");

async fn world(scope: Scope, behaviour: Behaviour) -> (World, TestReplica) {
    let world = World::of(Options::new("gateway", scope)).await;
    let replica = TestReplica::start(behaviour).await;
    let closed = |route: &mut weir_cluster::Route| route.control = ControlRoutes::Closed;
    world.serve(&[100], closed).await;
    world.put(1, "a", replica.address).await;
    (world, replica)
}

#[derive(Clone, Copy, Debug)]
enum Wire {
    Http1,
    Http2,
}

async fn http(world: &World, wire: Wire, (host, prefix): Address, call: &HttpCall) -> u16 {
    let (method, path, ..) = call;
    let body = Full::new(Bytes::from_static(b"x"));
    let request = Request::builder().method(method);
    let path = format!("{prefix}{path}");
    let response = match wire {
        Wire::Http1 => {
            let request = request.uri(path).header("host", host).body(body).unwrap();
            connect(world.address()).await.send_request(request).await
        }
        Wire::Http2 => {
            let request = request.uri(format!("http://{host}{path}")).body(body).unwrap();
            connect_h2(world.address()).await.send_request(request).await
        }
    };
    read(response.unwrap()).await.unwrap().status.as_u16()
}

async fn rpc(world: &World, (host, prefix): Address, call: &GrpcCall) -> (String, Bytes) {
    let (path, message, ..) = call;
    let framed = [&[0, 0, 0, 0, message.len() as u8][..], message].concat();
    let request = grpc::call(host, &format!("{prefix}{path}"), Full::new(Bytes::from(framed)));
    let mut client = connect_h2(world.address()).await;
    let response = client.send_request(request).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), grpc::ended(response));
    let ended = ended.await.unwrap();
    (grpc::status(&ended).0.to_owned(), ended.data)
}

/// Derives the result of a request from its status and the number of requests that the replica got.
fn end(status: u16, seen: usize) -> End {
    match (status, seen) {
        (200 | 0, 0) => Gateway,
        (200 | 0, _) => Replica,
        (403 | 7, 0) => Closed,
        (501 | 12, 0) => OneService,
        (404 | 5, 0) => Unknown,
        other => panic!("{other:?}"),
    }
}

/// Compares results; the service's health may be answered by the gateway or by a replica.
fn is(expected: End, found: End) -> bool {
    expected == found || (expected == Service && matches!(found, Gateway | Replica))
}

#[tokio::test]
async fn every_http_call_has_the_expected_result() {
    let (world, replica) = world(Scope::Local, Behaviour::Echo(Duration::ZERO)).await;
    for call in HTTP_CALLS {
        for (address, expected) in [(BY_HOST, call.2), (BY_PATH, call.2), (BY_MODEL, call.3)] {
            for wire in [Wire::Http1, Wire::Http2] {
                let before = replica.requests();
                let status = http(&world, wire, address, call).await;
                let found = end(status, replica.requests() - before);
                assert!(is(expected, found), "{call:?} {address:?} {wire:?}: {found:?}");
            }
        }
    }
}

#[tokio::test]
async fn every_grpc_call_has_the_expected_result() {
    let (world, replica) = world(Scope::Local, Behaviour::Mirror).await;
    for call in GRPC_CALLS {
        for (address, expected) in [(BY_HOST, call.2), (BY_PATH, call.2), (BY_MODEL, call.3)] {
            let before = replica.requests();
            let (code, _) = rpc(&world, address, call).await;
            let found = end(code.parse().unwrap(), replica.requests() - before);
            assert!(is(expected, found), "{call:?} {address:?}: {found:?}");
        }
    }
}

/// In a cluster a model's name matches no service, and the gateway answers only load balancers for itself.
#[tokio::test]
async fn in_a_cluster_services_are_reached_by_host_and_path_only() {
    let (world, replica) = world(Scope::Cluster, Behaviour::Mirror).await;
    for call in HTTP_CALLS {
        for wire in [Wire::Http1, Wire::Http2] {
            let found = end(http(&world, wire, BY_MODEL, call).await, replica.requests());
            let is_probe = matches!(call.1, "/" | "/v2/health/live");
            let expected = if is_probe { Gateway } else { Unknown };
            assert_eq!(found, expected, "{call:?} {wire:?}");
        }
    }
    for call in GRPC_CALLS {
        let (code, _) = rpc(&world, BY_MODEL, call).await;
        let found = end(code.parse().unwrap(), replica.requests());
        let expected = match call.0 {
            path if path.starts_with("/grpc.") => Gateway,
            // gRPC's status for an unknown method, on any host, because some load balancers expect it.
            "/my.Service/Method" => OneService,
            _ => Unknown,
        };
        assert_eq!(found, expected, "{call:?}");
    }
    for call in GRPC_CALLS {
        for address in [BY_HOST, BY_PATH] {
            let before = replica.requests();
            let (code, _) = rpc(&world, address, call).await;
            let found = end(code.parse().unwrap(), replica.requests() - before);
            assert!(is(call.2, found), "{call:?} {address:?}: {found:?}");
        }
    }
}

#[tokio::test]
async fn reflection_lists_the_inference_service() {
    let (world, _replica) = world(Scope::Cluster, Behaviour::Mirror).await;
    for call in GRPC_CALLS.iter().filter(|call| call.0.starts_with("/grpc.reflection")) {
        let (code, reply) = rpc(&world, ("10.1.2.3", ""), call).await;
        let reply = String::from_utf8_lossy(&reply).into_owned();
        assert_eq!(code, "0");
        for service in ["inference.GRPCInferenceService", "grpc.health.v1.Health"] {
            assert!(reply.contains(service), "{reply}");
        }
    }
}

/// A name does not count if it lies behind the bytes that the gateway reads, or if the gateway cannot decompress it.
#[tokio::test]
async fn statistics_need_a_name_that_can_be_read() {
    let (world, replica) = world(Scope::Cluster, Behaviour::Mirror).await;
    let padding = [&b"\x12\x80\x80\x08"[..], &[b'1'; 1 << 17]].concat();
    let long = [&padding[..], FIRST].concat();
    for (flag, encoding, message) in [(0, None, &long[..]), (1, None, FIRST), (1, Some("snappy"), FIRST)] {
        let length = (message.len() as u32).to_be_bytes();
        let framed = [&[flag][..], &length, message].concat();
        let path = "/inference.GRPCInferenceService/ModelStatistics";
        let mut request = grpc::call(HOST, path, Full::new(Bytes::from(framed)));
        if let Some(encoding) = encoding {
            request.headers_mut().insert("grpc-encoding", encoding.parse().unwrap());
        }
        let mut client = connect_h2(world.address()).await;
        let response = client.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        assert_eq!(parts.headers["grpc-status"], "7", "{encoding:?}");
        let _ = body.collect().await;
    }
    assert_eq!(replica.requests(), 0);
}
