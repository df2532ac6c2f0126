//! Why a request gets no replica's answer.

use std::sync::Arc;
use std::time::Duration;

use weir_protocol::{Code, Coded};

/// What a client is told. The sentences name what was asked for and what there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// Nothing in the request leads to a service.
    #[error("no service answers to {asked}; {known}")]
    NoRoute {
        /// Host, path or model, as asked.
        asked: String,
        /// What there is, where that may be told.
        known: String,
    },
    /// The service has no such revision or tag.
    #[error("service {service} has no {what} {asked:?}; there are: {known}")]
    NoRevision {
        /// The service.
        service: String,
        /// "revision" or "tag".
        what: &'static str,
        /// As asked.
        asked: String,
        /// Those there are, or "none".
        known: String,
    },
    /// The service sends its requests nowhere, and says why.
    #[error("{0}")]
    Nowhere(Arc<str>),
    /// As many requests wait for the revision as may.
    #[error(
        "the queue of revision {revision} is full: {requests} requests with {bytes} bytes wait"
    )]
    QueueFull {
        /// The revision.
        revision: String,
        /// Requests that wait.
        requests: usize,
        /// Their bodies together.
        bytes: usize,
    },
    /// The caller's time passed before its request was here.
    #[error(
        "deadline exceeded: waited {:.3} s for the request's body, of which {bytes} bytes came",
        .waited.as_secs_f64()
    )]
    LateBody {
        /// Since its head came.
        waited: Duration,
        /// What there was of it.
        bytes: usize,
    },
    /// The caller's time passed before a replica was free.
    #[error(
        "deadline exceeded: waited {:.3} s in the queue of revision {revision}, {ahead} requests were ahead",
        .waited.as_secs_f64()
    )]
    LateInQueue {
        /// The revision.
        revision: String,
        /// Since it came.
        waited: Duration,
        /// How many were before it at the end.
        ahead: usize,
    },
    /// The caller's time passed while a replica worked.
    #[error(
        "deadline exceeded: waited {:.3} s in the queue of revision {revision}, then {:.3} s for replica {replica}",
        .queued.as_secs_f64(), .waited.as_secs_f64()
    )]
    LateAtReplica {
        /// The revision.
        revision: String,
        /// The replica.
        replica: Arc<str>,
        /// Time in the queue.
        queued: Duration,
        /// Time at the replica.
        waited: Duration,
    },
    /// No replica became ready in time.
    #[error(
        "revision {revision} has no ready replica: waited {:.3} s; {because}",
        .waited.as_secs_f64()
    )]
    NotReady {
        /// The revision.
        revision: String,
        /// Since the request came.
        waited: Duration,
        /// The platform's last reason, or that it gave none.
        because: String,
    },
    /// The revision left while the request waited.
    #[error("revision {0} is gone")]
    Gone(String),
    /// Replicas took the request and broke off before they answered.
    #[error(
        "revision {revision} did not answer: tried {tries} times, last replica {replica}: {because}"
    )]
    Lost {
        /// The revision.
        revision: String,
        /// How often it was sent.
        tries: u32,
        /// The last replica that had it.
        replica: Arc<str>,
        /// What happened there.
        because: String,
    },
    /// A replica answered with what is no answer, and may have done the work: that is tried on one other replica
    /// at most.
    #[error(
        "revision {revision} gave no valid answer: tried {tries} times, last replica {replica}: {because}"
    )]
    InvalidResponse {
        /// The revision.
        revision: String,
        /// How often it was sent.
        tries: u32,
        /// The last replica that had it.
        replica: Arc<str>,
        /// What is wrong with what it said.
        because: String,
    },
    /// The answer to a batch that the gateway gathered is not one of a batch.
    #[error(
        "revision {revision} did not answer a batch of {rows} rows by {rows} rows: {because}; a runtime that knows no batches must not have spec.predictor.batcher"
    )]
    NoBatch {
        /// The revision.
        revision: String,
        /// What the batch had.
        rows: usize,
        /// What is wrong with the answer.
        because: String,
    },
    /// Another gateway passed the request on to this one, which does not own the revision's queue either.
    #[error("revision {0} is queued by another gateway")]
    NotOwner(String),
    /// The request's body broke off or stalled.
    #[error("request body {0}")]
    Body(String),
    /// A header that cannot be read.
    #[error("header {name}: {value:?} is not {expected}")]
    Header {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A path of ours, and another method than its own.
    #[error("Method Not Allowed")]
    MethodNotAllowed,
    /// A call that only one runtime can answer, sent to no service.
    #[error("{0} is for one runtime: send it to a service, by its host or path")]
    OneRuntime(String),
}

impl Coded for GatewayError {
    fn code(&self) -> Code {
        match self {
            Self::NoRoute { .. } | Self::NoRevision { .. } => Code::NotFound,
            Self::QueueFull { .. } => Code::Overloaded,
            Self::LateBody { .. } | Self::LateInQueue { .. } | Self::LateAtReplica { .. } => {
                Code::DeadlineExceeded
            }
            Self::Nowhere(_)
            | Self::NotReady { .. }
            | Self::Gone(_)
            | Self::Lost { .. }
            | Self::NotOwner(_) => Code::Unavailable,
            Self::Body(_) | Self::Header { .. } => Code::InvalidArgument,
            Self::InvalidResponse { .. } | Self::NoBatch { .. } => Code::Internal,
            Self::MethodNotAllowed => Code::MethodNotAllowed,
            Self::OneRuntime(_) => Code::Unimplemented,
        }
    }
}
