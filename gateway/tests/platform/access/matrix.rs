//! Every operation, by every way to address a service, over every protocol, with every kind of key and token.

mod exported;
mod handed_over;

use serde_json::json;

use super::tokens::{self, Signer};
use super::*;
use crate::client::{connect, read};

/// Protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Http1,
    Http2,
    /// The V1 protocol over HTTP/1.1.
    V1,
    /// A stream of events over HTTP/1.1.
    Events,
    Grpc,
    GrpcStream,
}

/// Way to address the service, and a revision of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Address {
    Host,
    Path,
    ModelName,
    OpenAiModel,
    TagHeader,
    TagHost,
    PinHeader,
}

/// Key or token of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credential {
    None,
    Bad,
    WrongSecret,
    Expired,
    Revoked,
    /// The key of a client that may do everything at the service.
    Right,
    /// A key of that client which is limited to one operation.
    Scoped(Operation),
    /// The key of a client that may do everything at another service.
    OfOther,
    Token(Claims),
}

/// Content of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claims {
    /// The client may do everything at the service.
    Right,
    Expired,
    WrongAudience,
    /// Another issuer has signed the token.
    Forged,
    /// The client may do everything at another service.
    OfOther,
}

const WIRES: [Wire; 6] = [Wire::Http1, Wire::Http2, Wire::V1, Wire::Events, Wire::Grpc, Wire::GrpcStream];

const ADDRESSES: [Address; 7] = [
    Address::Host,
    Address::Path,
    Address::ModelName,
    Address::OpenAiModel,
    Address::TagHeader,
    Address::TagHost,
    Address::PinHeader,
];

const OPERATIONS: [Operation; 3] = [Operation::Infer, Operation::Metadata, Operation::Control];

const CREDENTIALS: [Credential; 16] = [
    Credential::None,
    Credential::Bad,
    Credential::WrongSecret,
    Credential::Expired,
    Credential::Revoked,
    Credential::Right,
    Credential::Scoped(Operation::Infer),
    Credential::Scoped(Operation::Metadata),
    Credential::Scoped(Operation::Control),
    Credential::Scoped(Operation::Pin),
    Credential::OfOther,
    Credential::Token(Claims::Right),
    Credential::Token(Claims::Expired),
    Credential::Token(Claims::WrongAudience),
    Credential::Token(Claims::Forged),
    Credential::Token(Claims::OfOther),
];

impl Credential {
    /// Returns the key or token; `signer` is the issuer of tokens.
    fn text(self, signer: &Signer) -> Option<String> {
        match self {
            Self::None => None,
            Self::Bad => Some("weir_0".to_owned()),
            Self::WrongSecret => Some(format!("weir_{}_{}", key(1).id, "0".repeat(64))),
            Self::Expired => Some(key(2).text),
            Self::Revoked => Some(key(3).text),
            Self::Right => Some(key(1).text),
            Self::Scoped(operation) => Some(key(scoped(operation)).text),
            Self::OfOther => Some(key(4).text),
            Self::Token(claims) => Some(claims.token(signer)),
        }
    }

    /// Returns the HTTP status of a request that needs these operations; 200 stands for every status of a request that
    /// passes the check.
    fn expected(self, needed: &BTreeSet<&'static str>) -> u16 {
        match self {
            Self::None
            | Self::Bad
            | Self::WrongSecret
            | Self::Expired
            | Self::Revoked
            | Self::Token(Claims::Expired | Claims::WrongAudience | Claims::Forged) => 401,
            Self::Right | Self::Token(Claims::Right) => 200,
            Self::Scoped(operation) if needed.iter().all(|label| *label == operation.label()) => 200,
            Self::Scoped(_) | Self::OfOther | Self::Token(Claims::OfOther) => 403,
        }
    }
}

impl Claims {
    fn token(self, signer: &Signer) -> String {
        let (name, value) = match self {
            Self::Right | Self::Forged => ("sub", json!("right")),
            Self::Expired => ("exp", json!(1)),
            Self::WrongAudience => ("aud", json!("other")),
            Self::OfOther => ("sub", json!("other")),
        };
        let claims = tokens::with_claim(name, value);
        if self == Self::Forged { Signer::new("k1").token(&claims) } else { signer.token(&claims) }
    }
}

fn scoped(operation: Operation) -> u8 {
    10 + Operation::ALL.iter().position(|other| *other == operation).unwrap() as u8
}

fn matrix_policy() -> Policy {
    let mut keys = vec![written(1, "right"), written(4, "other")];
    keys.push(WrittenKey { expires: Some("2001-01-01T00:00:00Z".to_owned()), ..written(2, "right") });
    for operation in Operation::ALL {
        keys.push(WrittenKey { scopes: vec![operation], ..written(scoped(operation), "right") });
    }
    let rules = [("right", "default/digits"), ("other", "default/other")].into_iter().flat_map(|(client, service)| {
        // The prefix of the issuer is part of the names of its clients.
        [client.to_owned(), format!("sso:{client}")].map(|name| rule(&name, &[service], &Operation::ALL))
    });
    policy(keys, rules.collect())
}

/// Starts a gateway with the keys, rules and issuer of the matrix, and the server of the issuer's key set.
async fn guarded() -> (Guarded, Signer, TestReplica) {
    let signer = Signer::new("k1");
    let keys = signer.serve().await;
    let guarded = Guarded::new(Scope::Local, matrix_policy()).await.trusting(&tokens::issuer(&keys));
    (guarded, signer, keys)
}

/// A cell of the matrix without its key.
#[derive(Clone, Copy, Debug)]
struct Cell {
    wire: Wire,
    address: Address,
    operation: Operation,
    /// Name of the service, which exists or not.
    service: &'static str,
}

impl Wire {
    fn is_grpc(self) -> bool {
        matches!(self, Self::Grpc | Self::GrpcStream)
    }

    /// Returns true for a way to call this operation: a stream is an inference, and V1 has no control calls.
    fn has(self, operation: Operation) -> bool {
        match self {
            Self::Http1 | Self::Http2 | Self::Grpc => true,
            Self::V1 => operation != Operation::Control,
            Self::Events | Self::GrpcStream => operation == Operation::Infer,
        }
    }
}

impl Cell {
    /// Returns true for a combination that exists: OpenAI's API is a protocol of its own, with one call over HTTP, and
    /// control calls name no model to be routed by.
    fn exists(self) -> bool {
        let is_addressed = match self.address {
            Address::OpenAiModel => self.operation == Operation::Infer && !self.wire.is_grpc() && self.wire != Wire::V1,
            Address::ModelName => self.operation != Operation::Control,
            Address::Host | Address::Path | Address::TagHeader | Address::TagHost | Address::PinHeader => true,
        };
        is_addressed && self.wire.has(self.operation)
    }

    fn needed(self) -> BTreeSet<&'static str> {
        let is_pinned = matches!(self.address, Address::TagHeader | Address::TagHost | Address::PinHeader);
        let pin = is_pinned.then_some(Operation::Pin.label());
        std::iter::once(self.operation.label()).chain(pin).collect()
    }

    fn call(self) -> String {
        let name = self.service;
        match (self.wire, self.operation) {
            _ if self.address == Address::OpenAiModel => "/v1/chat/completions".to_owned(),
            (Wire::Http1 | Wire::Http2, Operation::Infer) => format!("/v2/models/{name}/infer"),
            (Wire::Http1 | Wire::Http2, Operation::Metadata) => format!("/v2/models/{name}"),
            (Wire::Http1 | Wire::Http2, _) => format!("/v2/repository/models/{name}/load"),
            (Wire::V1, Operation::Infer) => format!("/v1/models/{name}:predict"),
            (Wire::V1, _) => format!("/v1/models/{name}"),
            (Wire::Events, _) => format!("/v2/models/{name}/generate_stream"),
            (Wire::GrpcStream, _) => format!("{}/ModelStreamInfer", grpc::SERVICE),
            (Wire::Grpc, Operation::Infer) => format!("{}/ModelInfer", grpc::SERVICE),
            (Wire::Grpc, Operation::Metadata) => format!("{}/ModelMetadata", grpc::SERVICE),
            (Wire::Grpc, _) => format!("{}/RepositoryModelLoad", grpc::SERVICE),
        }
    }

    fn host_and_path(self) -> (String, String) {
        let (name, call) = (self.service, self.call());
        match self.address {
            Address::Host | Address::TagHeader | Address::PinHeader => (format!("{name}.default"), call),
            Address::Path => ("localhost".to_owned(), format!("/serving/default/{name}{call}")),
            Address::ModelName | Address::OpenAiModel => ("localhost".to_owned(), call),
            Address::TagHost => (format!("blue-{name}-default.example.com"), call),
        }
    }

    /// Returns the request with a key or token.
    fn request(self, text: Option<&str>) -> Request<Full<Bytes>> {
        let (host, path) = self.host_and_path();
        let is_read = self.operation == Operation::Metadata && !self.wire.is_grpc();
        let request = Request::builder().method(if is_read { "GET" } else { "POST" });
        let mut request = match self.wire {
            Wire::Http1 | Wire::V1 | Wire::Events => request.uri(path).header("host", host),
            Wire::Http2 => request.uri(format!("http://{host}{path}")),
            Wire::Grpc | Wire::GrpcStream => {
                request.uri(format!("http://{host}{path}")).header("content-type", "application/grpc")
            }
        };
        match self.address {
            Address::TagHeader => request = request.header("weir-tag", "blue"),
            Address::PinHeader => {
                request = request.header("weir-revision", format!("{}-predictor-00001", self.service));
            }
            Address::Host | Address::Path | Address::ModelName | Address::OpenAiModel | Address::TagHost => {}
        }
        if let Some(text) = text {
            request = request.header("authorization", format!("Bearer {text}"));
        }
        request.body(Full::new(self.body())).unwrap()
    }

    fn body(self) -> Bytes {
        match self.wire {
            Wire::Grpc | Wire::GrpcStream => grpc::infer(self.service),
            _ if self.operation == Operation::Metadata => Bytes::new(),
            Wire::Events => format!("{{\"model\":\"{}\",\"stream\":true}}", self.service).into(),
            Wire::Http1 | Wire::Http2 | Wire::V1 => format!("{{\"model\":\"{}\"}}", self.service).into(),
        }
    }

    /// Sends the request. Returns its HTTP status, or for gRPC the HTTP status that corresponds to its gRPC status, and
    /// the message.
    async fn sent(self, world: &World, text: Option<&str>) -> (u16, String) {
        self.sent_to(world.address(), text).await
    }

    async fn sent_to(self, gateway: std::net::SocketAddr, text: Option<&str>) -> (u16, String) {
        let request = self.request(text);
        let response = match self.wire {
            Wire::Http1 | Wire::V1 | Wire::Events => connect(gateway).await.send_request(request).await,
            Wire::Http2 | Wire::Grpc | Wire::GrpcStream => connect_h2(gateway).await.send_request(request).await,
        };
        let response = response.unwrap();
        if !self.wire.is_grpc() {
            let answer = read(response).await.unwrap();
            return (answer.status.as_u16(), answer.text().to_owned());
        }
        let ended = grpc::ended(response).await;
        let (code, message) = grpc::status(&ended);
        let status = match code {
            "0" => 200,
            "16" => 401,
            "7" => 403,
            "5" => 404,
            other => panic!("{self:?}: {other} {message}"),
        };
        (status, message)
    }
}

fn cells(service: &'static str) -> impl Iterator<Item = Cell> {
    let wires = WIRES.into_iter().flat_map(|wire| ADDRESSES.map(|address| (wire, address)));
    let all = wires.flat_map(|(wire, address)| OPERATIONS.map(|operation| (wire, address, operation)));
    let cells = all.map(move |(wire, address, operation)| Cell { wire, address, operation, service });
    cells.filter(|cell| cell.exists())
}

/// Every cell has the expected status; no refused request reaches the replica, and each gets the same answer as a
/// request to a service that does not exist.
#[tokio::test]
async fn every_key_opens_what_it_should_and_nothing_else() {
    let (guarded, signer, _keys) = guarded().await;
    let mut count = 0;
    for (cell, missing) in cells("digits").zip(cells("absent")) {
        for credential in CREDENTIALS {
            let before = guarded.replica.requests();
            let text = credential.text(&signer);
            let found = cell.sent(&guarded.world, text.as_deref()).await;
            let expected = credential.expected(&cell.needed());
            assert_eq!(found.0, expected, "{cell:?} {credential:?}: {}", found.1);
            // A request whose pooled connection was stale is sent again.
            let is_seen = guarded.replica.requests() > before;
            assert_eq!(is_seen, expected == 200, "{cell:?} {credential:?}");
            if expected != 200 {
                let missed = missing.sent(&guarded.world, text.as_deref()).await;
                assert_eq!(missed, found, "{missing:?} {credential:?}");
            }
            count += 1;
        }
    }
    assert!(count > 1000, "{count}");
}

/// At the host of a service that the client may not use, calls that concern no single service get the same answer as at
/// any other host.
#[tokio::test]
async fn a_host_reveals_nothing_in_calls_that_concern_no_service() {
    let (guarded, signer, _keys) = guarded().await;
    for path in ["/", "/v2", "/v2/health/ready", "/v2/models", "/v1/models", "/v2/logging", "/v1/completions", "/x"] {
        for credential in [Credential::None, Credential::Bad, Credential::OfOther] {
            let mut answers = Vec::new();
            for host in ["digits.default", "absent.default"] {
                let mut request = Request::get(path).header("host", host);
                if let Some(text) = credential.text(&signer) {
                    request = request.header("x-api-key", text);
                }
                let answer = once(guarded.world.address(), request.body(Full::default()).unwrap()).await;
                answers.push((answer.status, answer.text().to_owned()));
            }
            assert_eq!(answers[0], answers[1], "{path} {credential:?}");
        }
    }
    assert_eq!(guarded.replica.requests(), 0);
}

/// Only a client that may use every service learns that one does not exist.
#[tokio::test]
async fn a_client_that_may_use_all_services_learns_which_do_not_exist() {
    let all = rule("right", &["*"], &Operation::ALL);
    let guarded = Guarded::new(Scope::Local, policy(vec![written(1, "right")], vec![all])).await;
    // A control call whose address matches no service is refused with another error: it needs a service.
    for missing in cells("absent").filter(|cell| cell.operation != Operation::Control) {
        assert_eq!(missing.sent(&guarded.world, Some(&key(1).text)).await.0, 404, "{missing:?}");
    }
}
