//! Errors of requests, and their sentences for clients.

use std::sync::Arc;
use std::time::Duration;

use weir_ops::known_hosts::ForeignHost;
use weir_protocol::{Code, Coded};

/// Error that a client gets instead of a replica's response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GatewayError {
    /// Nothing in the request leads to a service.
    #[error("no service answers to {asked}; {known}")]
    NoRoute { asked: String, known: String },
    /// A gRPC method that the gateway does not have, of a call that names no service.
    #[error("unknown method {method}: a service that has it is called by its host; {known}")]
    NoMethod { method: String, known: String },
    /// The service has no such revision or tag.
    #[error("service {service} has no {what} {asked:?}{known}")]
    NoRevision { service: String, what: &'static str, asked: String, known: String },
    /// The service sends its requests nowhere, and says why.
    #[error("{0}")]
    Nowhere(Arc<str>),
    /// As many requests wait for the revision as may.
    #[error("the queue of revision {revision} is full: {requests} requests with {bytes} bytes wait{failure}")]
    QueueFull {
        revision: String,
        requests: usize,
        bytes: usize,
        /// Last failure of a revision without a ready replica, a clause; else empty.
        failure: String,
    },
    /// The caller asked for an answer at once.
    #[error("deadline exceeded: the request's timeout is 0; for no limit, leave out weir-timeout and grpc-timeout")]
    NoTime,
    /// The caller's time passed before its request was here.
    #[error(
        "deadline exceeded: waited {:.3} s for the request's body, of which {bytes} bytes came",
        .waited.as_secs_f64()
    )]
    LateBody { waited: Duration, bytes: usize },
    /// The caller's time passed before a replica was free.
    #[error(
        "deadline exceeded: waited {:.3} s in the queue of revision {revision}, {ahead} requests were ahead{failure}",
        .waited.as_secs_f64()
    )]
    LateInQueue {
        revision: String,
        waited: Duration,
        ahead: usize,
        /// The revision's last failure, a clause that ends the sentence; empty if there is none.
        failure: String,
    },
    /// The caller's time passed while a replica worked.
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
    /// The revision left while the request waited.
    #[error("revision {0} was removed")]
    Gone(String),
    /// Replicas took the request and broke off before they answered.
    #[error("revision {revision} did not answer: tried {tries} times, last replica {replica}: {because}{failure}")]
    Lost {
        revision: String,
        tries: u32,
        replica: Arc<str>,
        because: String,
        /// The revision's last failure, a clause that ends the sentence; empty if there is none.
        failure: String,
    },
    /// The program of a replica ended while it had the request, which may be why.
    #[error(
        "replica {replica} of revision {revision} ended while it ran this request, which is not sent again because it may be the cause: {because}"
    )]
    ReplicaEnded { revision: String, replica: Arc<str>, because: String },
    /// A replica answered with what is no answer, and may have done the work: that is tried on one other replica
    /// at most.
    #[error("revision {revision} returned no valid response: tried {tries} times, last replica {replica}: {because}")]
    InvalidResponse { revision: String, tries: u32, replica: Arc<str>, because: String },
    /// The answer to a batch that the gateway gathered is not one of a batch.
    #[error(
        "revision {revision} answered a batch of {rows} rows without one result per row: {because}; if its runtime does not support batches, remove spec.predictor.batcher"
    )]
    NoBatch { revision: String, rows: usize, because: String },
    /// Another gateway passed the request on to this one, which does not own the revision's queue either.
    #[error("revision {0} is queued by another gateway")]
    NotOwner(String),
    /// The request's body stalled, or came too slowly.
    #[error("request body stalled for {} s, or came slower than 1 KiB/s", .0.as_secs_f32())]
    SlowBody(Duration),
    /// The gateway ends, and the stream has sent nothing yet.
    #[error("the gateway shuts down")]
    ShutsDown,
    /// The request's body broke off.
    #[error("request body {0}")]
    Body(String),
    /// A gRPC message in an encoding that hides the model's name from the gateway.
    #[error(
        "a message encoded with {0:?} cannot be routed by its model's name: encode it with gzip or deflate, or call the service by its host"
    )]
    UnknownEncoding(String),
    /// A gRPC call on a connection that has no room for its status.
    #[error(
        "gRPC needs HTTP/2, and this call came over HTTP/1: have the proxy in front send gRPC on over HTTP/2 (nginx: grpc_pass)"
    )]
    GrpcOverHttp1,
    /// A header that cannot be read.
    #[error("header {name}: {value:?} is not {expected}")]
    Header { name: &'static str, value: String, expected: &'static str },
    /// A path of ours, and another method than its own.
    #[error("Method Not Allowed")]
    MethodNotAllowed {
        /// The path's own, as the header `Allow` lists them (RFC 9110, 15.5.6).
        allowed: &'static str,
    },
    /// A call that controls the service's servers, which it does not open.
    #[error(
        "{call} controls the servers of service {service}, which does not allow that from here: send it to a replica, or \
         annotate the service with weir.dev/control-routes: \"true\""
    )]
    ControlClosed { call: String, service: String },
    /// A web page of another site, or a name that is not this machine's.
    #[error("{0}")]
    Foreign(ForeignHost),
    /// A connection that should become another one.
    #[error(
        "WebSockets are not passed on: ask for server-sent events or a gRPC stream, or connect to a replica itself"
    )]
    WebSocket,
    /// A call that only one runtime can answer, sent to no service.
    #[error("{0} needs one service: use its host, or /serving/NAMESPACE/NAME/...")]
    OneRuntime(String),
}

impl Coded for GatewayError {
    fn code(&self) -> Code {
        match self {
            Self::NoRoute { .. } | Self::NoRevision { .. } => Code::NotFound,
            Self::QueueFull { .. } => Code::Overloaded,
            Self::NoTime | Self::LateBody { .. } | Self::LateInQueue { .. } | Self::LateAtReplica { .. } => {
                Code::DeadlineExceeded
            }
            Self::Nowhere(_)
            | Self::NotReady { .. }
            | Self::Gone(_)
            | Self::Lost { .. }
            | Self::NotOwner(_)
            | Self::ShutsDown => Code::Unavailable,
            Self::SlowBody(_) => Code::TooSlow,
            Self::Body(_) | Self::Header { .. } => Code::InvalidArgument,
            Self::ReplicaEnded { .. } | Self::InvalidResponse { .. } | Self::NoBatch { .. } => Code::Internal,
            Self::MethodNotAllowed { .. } => Code::MethodNotAllowed,
            Self::UnknownEncoding(_) => Code::UnknownCoding,
            Self::OneRuntime(_) | Self::WebSocket | Self::NoMethod { .. } | Self::GrpcOverHttp1 => Code::Unimplemented,
            Self::ControlClosed { .. } | Self::Foreign(_) => Code::Forbidden,
        }
    }
}
