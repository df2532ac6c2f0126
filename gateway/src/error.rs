//! Errors of requests, with the messages that clients get.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_access::Unit;
use weir_protocol::{Code, Coded};
use weir_serve::known_hosts::ForeignHost;

/// Error that a client gets instead of a replica's response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GatewayError {
    /// The request matches no service.
    #[error("no service answers to {asked}; {known}")]
    NoRoute { asked: String, known: String },
    /// A gRPC call to an unknown method, which does not name a service by its host or path either.
    #[error("unknown method {method}: call it at the host of a service that has it; {known}")]
    NoMethod { method: String, known: String },
    /// Services of several namespaces have the model that a request names.
    #[error("several services have a model {model:?}: call one by its host or below its path: {paths}")]
    AmbiguousModel { model: String, paths: String },
    /// The service does not have this revision or tag.
    #[error("service {service} has no {what} {asked:?}{known}")]
    NoRevision { service: String, what: &'static str, asked: String, known: String },
    /// The service's route leads to no revision; the text is the reason.
    #[error("{0}")]
    Nowhere(Arc<str>),
    /// The queue of the revision is full.
    #[error("the queue of revision {revision} is full: {requests} requests with {bytes} bytes wait{failure}")]
    QueueFull {
        revision: String,
        requests: usize,
        bytes: usize,
        /// Last failure of a revision without a ready replica, as a clause; otherwise empty.
        failure: String,
    },
    /// The client has used up one of its limits.
    #[error("{}: try again in {} s", .limit.sentence(), .after.as_secs_f32().ceil())]
    OverLimit {
        limit: ClientLimit,
        /// Time after which another request may be accepted.
        after: Duration,
    },
    /// The client set a timeout of zero.
    #[error("deadline exceeded: the request's timeout is 0; for no limit, leave out weir-timeout and grpc-timeout")]
    NoTime,
    /// The deadline passed before the request's body had arrived.
    #[error(
        "deadline exceeded: waited {:.3} s for the request's body, of which {bytes} bytes arrived",
        .waited.as_secs_f64()
    )]
    LateBody { waited: Duration, bytes: usize },
    /// The deadline passed before a replica was free.
    #[error(
        "deadline exceeded: waited {:.3} s in the queue of revision {revision}, {ahead} requests were ahead{failure}",
        .waited.as_secs_f64()
    )]
    LateInQueue {
        revision: String,
        waited: Duration,
        ahead: usize,
        /// Last failure of the revision, as a clause that ends the sentence; empty if there is none.
        failure: String,
    },
    /// The deadline passed while a replica worked on the request.
    #[error(
        "deadline exceeded: waited {:.3} s in the queue of revision {revision}, then {:.3} s for replica {replica}",
        .queued.as_secs_f64(), .waited.as_secs_f64()
    )]
    LateAtReplica { revision: String, replica: Arc<str>, queued: Duration, waited: Duration },
    /// No replica became ready in time.
    #[error(
        "revision {revision} has no ready replica: waited {:.3} s; {because}",
        .waited.as_secs_f64()
    )]
    NotReady { revision: String, waited: Duration, because: String },
    /// The revision was removed while the request waited.
    #[error("revision {0} was removed")]
    Gone(String),
    /// Replicas accepted the request but broke off before they answered, or accepted no connection.
    #[error("revision {revision} did not answer: {}, last replica {replica}: {because}{failure}", tried(*.tries))]
    Lost {
        revision: String,
        /// Replicas that accepted the request.
        tries: u32,
        replica: Arc<str>,
        because: String,
        /// Last failure of the revision, as a clause that ends the sentence; empty if there is none.
        failure: String,
    },
    /// The program of a replica ended while it had the request, which may be the cause.
    #[error(
        "replica {replica} of revision {revision} ended while it ran this request, which is not retried because it may be the cause: {because}"
    )]
    ReplicaEnded { revision: String, replica: Arc<str>, because: String },
    /// The response of a replica was invalid. The replica may have done the work, so the request is retried at most
    /// once, at another replica.
    #[error("revision {revision} returned no valid response: tried {tries} times, last replica {replica}: {because}")]
    InvalidResponse { revision: String, tries: u32, replica: Arc<str>, because: String },
    /// The response to a batch of the gateway does not have one result per row.
    #[error(
        "revision {revision} answered a batch of {rows} rows without one result per row: {because}; if its runtime does not support batches, remove spec.predictor.batcher"
    )]
    NoBatch { revision: String, rows: usize, because: String },
    /// Another gateway handed the request over to this one, which does not own the revision's queue either.
    #[error("another gateway owns the queue of revision {0}")]
    NotOwner(String),
    /// The gateways did not agree on an owner of the revision's queue in time, or the request cannot be handed over
    /// again, because its body was streamed.
    #[error("no gateway took the request: the gateways disagree on the owner of the queue of revision {0}; try again")]
    NoOwner(String),
    /// Another gateway handed the request over, on a connection whose certificate is no longer that of a gateway: it
    /// expired, or its authority was removed.
    #[error("the certificate of this connection is no longer that of a gateway")]
    FormerGateway,
    /// Another gateway handed the request over to this one, which does not know its revision. The gateways have applied
    /// different states of the cluster.
    #[error("this gateway has not applied the same state of the cluster")]
    OtherState,
    /// The request's body stalled or arrived too slowly.
    #[error("request body stalled for {} s, or arrived slower than 1 KiB/s", .0.as_secs_f32())]
    SlowBody(Duration),
    /// The gateway shuts down, and the stream has sent no message yet.
    #[error("the gateway is shutting down")]
    ShutsDown,
    /// The request's body broke off or is invalid; the text continues the sentence.
    #[error("request body {0}")]
    Body(String),
    /// The body exceeds this many bytes, the most that the gateway buffers to find the model's name.
    #[error("the request body exceeds {0} bytes, so its model cannot be found: call the service by its host or path")]
    TooLargeToRoute(usize),
    /// The byte budget for buffered bodies is exhausted, so the model's name cannot be found.
    #[error("too many request bodies are buffered to find the model of this one: try again")]
    NoRoomToRoute,
    /// A gRPC message in an encoding in which the gateway cannot find the model's name.
    #[error(
        "a message encoded with {0:?} cannot be routed by its model's name: encode it with gzip or deflate, or call the service by its host"
    )]
    UnknownEncoding(String),
    /// A gRPC call over HTTP/1, which has no trailers for its status.
    #[error(
        "gRPC needs HTTP/2, but this call arrived over HTTP/1: let the proxy in front forward gRPC over HTTP/2 (nginx: grpc_pass)"
    )]
    GrpcOverHttp1,
    /// A header whose value is invalid.
    #[error("header {name}: {value:?} is not {expected}")]
    Header { name: &'static str, value: String, expected: &'static str },
    /// A path of the gateway itself, called with a method that it does not have.
    #[error("Method Not Allowed")]
    MethodNotAllowed {
        /// Methods of the path, as the header `Allow` lists them (RFC 9110, 15.5.6).
        allowed: &'static str,
    },
    /// A call that controls the service's servers and that the service does not open to clients.
    #[error(
        "{call} controls the servers of service {service}, which does not allow that from here: send it to a replica, or \
         annotate the service with weir.dev/control-routes: \"true\""
    )]
    ControlClosed { call: String, service: String },
    /// The issuer of a token could not be reached for its keys.
    #[error("the keys of the token's issuer cannot be fetched: try again")]
    IssuerAway,
    /// A request that access control refuses.
    #[error("{0}")]
    Refused(Box<Refused>),
    /// A request from a web page of another site, or for a host name that the gateway does not serve.
    #[error("{0}")]
    Foreign(ForeignHost),
    /// A request for a WebSocket that is not a GET or has a body.
    #[error("a WebSocket's handshake is a GET without a body")]
    Handshake,
    /// A request for a WebSocket to a replica that speaks only HTTP/2.
    #[error("the replica speaks only HTTP/2, which has no upgrade to a WebSocket: give its container an HTTP/1.1 port")]
    NoUpgrade,
    /// A call that only a single runtime can answer, but that names no service.
    #[error("{0} needs one service: use its host, or /serving/NAMESPACE/NAME/...")]
    OneRuntime(String),
}

fn tried(tries: u32) -> String {
    match tries {
        0 => "no replica accepted a connection".to_owned(),
        tries => format!("tried {tries} times"),
    }
}

/// A refusal of access control. The message for the client depends on the refusal and the client alone, so that it says
/// nothing about which services exist. The other fields are for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    /// The client; `None` without a valid key.
    pub(crate) client: Option<Arc<str>>,
    /// The service; `None` for a request that leads to none.
    pub(crate) service: Option<String>,
    /// Word for the operation; empty for a request that leads to no service.
    pub(crate) operation: &'static str,
    /// The reason, as a clause.
    pub(crate) because: String,
}

/// Kind of a refusal of access control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request has no key or token, and needs one.
    NoCredential,
    /// The key or token is not valid.
    InvalidCredential,
    /// The request has several keys or tokens.
    SeveralCredentials,
    /// No rule allows the request to this client.
    Forbidden,
}

impl Refusal {
    /// Returns the word for logs and metric labels.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::NoCredential => "no_credential",
            Self::InvalidCredential | Self::SeveralCredentials => "invalid_credential",
            Self::Forbidden => "forbidden",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.refusal, &self.client) {
            (Refusal::NoCredential, _) => {
                f.write_str("a key is needed: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`")
            }
            (Refusal::InvalidCredential, _) => f.write_str("the key or token is not valid"),
            (Refusal::SeveralCredentials, _) => f.write_str(
                "the request has several keys: send one, as `Authorization: Bearer KEY` or `x-api-key: KEY`",
            ),
            (Refusal::Forbidden, Some(client)) => {
                write!(f, "{client} may not send this request, or there is no such service")
            }
            (Refusal::Forbidden, None) => f.write_str("this request is not allowed, or there is no such service"),
        }
    }
}

/// A limit of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientLimit {
    /// The client's share of the places of a full queue.
    QueueShare,
    /// The client's requests, bytes or tokens per minute.
    Rate(Unit),
    /// The client's share of the port's connections.
    Connections,
    /// The client's share of the gateway's open requests.
    OpenRequests,
    /// The client's share of the bytes of buffered bodies.
    Bytes,
    /// The client's number of services that wait for their first replica.
    WakeUps,
    /// The client's requests in flight.
    Concurrency,
}

impl ClientLimit {
    /// Returns the name of the limit with its state, as a sentence without its end.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Rate(Unit::Requests) => "the client has used up its limit requestsPerMinute",
            Self::Rate(Unit::Bytes) => "the client has used up its limit bytesPerMinute",
            Self::Rate(Unit::Tokens) => "the client has used up its limit tokensPerMinute",
            Self::Concurrency => "the client has as many requests in flight as its limit concurrency allows",
            Self::QueueShare => "the queue is full, and the client has more than its share of it",
            Self::Connections => "the client has its share of the gateway's connections",
            Self::OpenRequests => "the client has its share of the gateway's open requests",
            Self::Bytes => "the client has its share of the gateway's memory for request bodies",
            Self::WakeUps => "too many services wait for their first replica because of the client's requests",
        }
    }
}

impl GatewayError {
    /// Returns the error for another gateway that handed the request over. An unknown revision means that one of both
    /// gateways is yet to apply a newer state, so the other gateway tries again.
    pub(crate) fn of_handed_over(self) -> Self {
        if self.is_unrouted() || matches!(self, Self::Gone(_)) { Self::OtherState } else { self }
    }

    /// Returns true if the request matches no revision.
    pub(crate) fn is_unrouted(&self) -> bool {
        matches!(
            self,
            Self::NoRoute { .. }
                | Self::NoMethod { .. }
                | Self::NoRevision { .. }
                | Self::Nowhere(_)
                | Self::AmbiguousModel { .. }
        )
    }

    /// Returns true if the connection should end after the error: the client has too many connections, or a gateway has
    /// to open another one with its new certificate.
    pub(crate) fn closes_connection(&self) -> bool {
        matches!(self, Self::OverLimit { limit: ClientLimit::Connections, .. } | Self::FormerGateway)
    }

    /// Returns true if the queue had no place for the request, which the queue counts.
    pub(crate) fn is_full_queue(&self) -> bool {
        matches!(self, Self::QueueFull { .. } | Self::OverLimit { limit: ClientLimit::QueueShare, .. })
    }
}

impl Coded for GatewayError {
    fn code(&self) -> Code {
        match self {
            Self::NoRoute { .. } | Self::NoRevision { .. } => Code::NotFound,
            Self::QueueFull { .. } | Self::NoRoomToRoute => Code::Overloaded,
            Self::OverLimit { .. } => Code::OverLimit,
            Self::TooLargeToRoute(_) => Code::TooLarge,
            Self::NoTime | Self::LateBody { .. } | Self::LateInQueue { .. } | Self::LateAtReplica { .. } => {
                Code::DeadlineExceeded
            }
            Self::Nowhere(_)
            | Self::NotReady { .. }
            | Self::Gone(_)
            | Self::Lost { .. }
            | Self::NotOwner(_)
            | Self::NoOwner(_)
            | Self::FormerGateway
            | Self::OtherState
            | Self::IssuerAway
            | Self::ShutsDown => Code::Unavailable,
            Self::SlowBody(_) => Code::TooSlow,
            Self::Body(_) | Self::Header { .. } | Self::Handshake | Self::AmbiguousModel { .. } => {
                Code::InvalidArgument
            }
            Self::ReplicaEnded { .. } | Self::InvalidResponse { .. } | Self::NoBatch { .. } => Code::Internal,
            Self::MethodNotAllowed { .. } => Code::MethodNotAllowed,
            Self::UnknownEncoding(_) => Code::UnknownCoding,
            Self::OneRuntime(_) | Self::NoUpgrade | Self::NoMethod { .. } | Self::GrpcOverHttp1 => Code::Unimplemented,
            Self::Refused(refused) => match refused.refusal {
                Refusal::NoCredential | Refusal::InvalidCredential | Refusal::SeveralCredentials => {
                    Code::Unauthenticated
                }
                Refusal::Forbidden => Code::Forbidden,
            },
            Self::ControlClosed { .. } | Self::Foreign(_) => Code::Forbidden,
        }
    }
}
