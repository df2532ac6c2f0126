//! Every operation × every way to address a service × every wire: who answers, and who is refused.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use weir_cluster::ControlRoutes;
use weir_gateway::{Options, Scope};

use crate::client::{connect, connect_h2, read};
use crate::grpc;
use crate::replica::{Manner, TestReplica};
use crate::world::{HOST, World};

/// What comes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The service's replica answered.
    Replica,
    /// The gateway answered for itself.
    Gateway,
    /// The gateway answered for the service, or its replica did: health.
    Service,
    /// Refused: it controls a server.
    Closed,
    /// Refused: it is for one server, and names no service.
    OneService,
    /// Nothing is known under this address.
    Unknown,
}

use End::{Closed, Gateway, OneService, Replica, Service, Unknown};

/// A call over HTTP: its method and path, what comes of it by the host or the path of the service, and by the model's
/// name alone.
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
    // A container may have paths of its own.
    (Method::POST, "/openai/v1/completions", Replica, OneService),
    (Method::POST, "/v2/models/other/infer", Replica, Unknown),
];

/// A call over gRPC: its path, its message, and as above.
type GrpcCall = (&'static str, &'static [u8], End, End);

/// `digits` in the first field, in the second, and nowhere.
const FIRST: &[u8] = b"\x0a\x06digits";
const SECOND: &[u8] = b"\x12\x06digits";
const NONE: &[u8] = b"";

/// The services that `ListServices` of reflection asks for.
const LIST: &[u8] = b"\x3a\x01*";

const GRPC_CALLS: &[GrpcCall] = &[
    ("/inference.GRPCInferenceService/ModelInfer", FIRST, Replica, Replica),
    ("/inference.GRPCInferenceService/ModelStreamInfer", FIRST, Replica, Replica),
    ("/inference.GRPCInferenceService/ModelMetadata", FIRST, Replica, Replica),
    ("/inference.GRPCInferenceService/ModelConfig", FIRST, Replica, Replica),
    ("/inference.GRPCInferenceService/ModelStatistics", FIRST, Replica, Replica),
    ("/inference.GRPCInferenceService/ModelStatistics", NONE, Closed, OneService),
    ("/inference.GRPCInferenceService/ModelStatistics", b"\x12\x011", Closed, OneService),
    // Of a field that comes twice, servers take the last.
    ("/inference.GRPCInferenceService/ModelStatistics", b"\x0a\x06digits\x0a\x00", Closed, Closed),
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

/// A host, and what comes before the path.
type Address = (&'static str, &'static str);

const BY_HOST: Address = (HOST, "");
const BY_PATH: Address = ("localhost", "/serving/default/digits");
const BY_MODEL: Address = ("localhost", "");

async fn world(scope: Scope, manner: Manner) -> (World, TestReplica) {
    let mut world = World::new(0).await;
    world.add(Options::new("gateway", scope)).await;
    let replica = TestReplica::start(manner).await;
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

/// What came of a request, by its status and by what the replica saw.
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

/// Health is answered by whoever may.
fn is(expected: End, found: End) -> bool {
    expected == found || (expected == Service && matches!(found, Gateway | Replica))
}

#[tokio::test]
async fn every_call_over_http_ends_as_it_should() {
    let (world, replica) = world(Scope::Local, Manner::Echo(Duration::ZERO)).await;
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
async fn every_call_over_grpc_ends_as_it_should() {
    let (world, replica) = world(Scope::Local, Manner::Mirror).await;
    for call in GRPC_CALLS {
        for (address, expected) in [(BY_HOST, call.2), (BY_PATH, call.2), (BY_MODEL, call.3)] {
            let before = replica.requests();
            let (code, _) = rpc(&world, address, call).await;
            let found = end(code.parse().unwrap(), replica.requests() - before);
            assert!(is(expected, found), "{call:?} {address:?}: {found:?}");
        }
    }
}

/// In a cluster a model's name leads nowhere, and the gateway answers for itself to load balancers only.
#[tokio::test]
async fn in_a_cluster_only_hosts_and_paths_lead_to_services() {
    let (world, replica) = world(Scope::Cluster, Manner::Mirror).await;
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
            // What gRPC says of a method that is not there, whatever the host: some load balancers expect it.
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
async fn reflection_tells_of_the_inference_service() {
    let (world, _replica) = world(Scope::Cluster, Manner::Mirror).await;
    for call in GRPC_CALLS.iter().filter(|call| call.0.starts_with("/grpc.reflection")) {
        let (code, told) = rpc(&world, ("10.1.2.3", ""), call).await;
        let told = String::from_utf8_lossy(&told).into_owned();
        assert_eq!(code, "0");
        for service in ["inference.GRPCInferenceService", "grpc.health.v1.Health"] {
            assert!(told.contains(service), "{told}");
        }
    }
}

/// A name that lies behind what a gateway looks at, or that it cannot read, is none.
#[tokio::test]
async fn statistics_need_a_name_that_can_be_read() {
    let (world, replica) = world(Scope::Cluster, Manner::Mirror).await;
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
