//! Errors of serving a request, each with its [`Code`].

use std::any::Any;
use std::time::Duration;

use weir_batcher::{Bound, SubmitError};
use weir_protocol::{Blame, Code, Coded, blame_for_client_deadline};
use weir_serve::byte_budget::BudgetExhausted;
use weir_serve::request_head::Ambiguous;

/// Error of a call; `Display` gives the text for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// The request contradicts itself or the model's signature.
    #[error("{0}")]
    Invalid(String),
    /// The request's body stalled, or arrived too slowly.
    #[error("request body stalled for {} s, or arrived slower than 1 KiB/s", .0.as_secs_f32())]
    TooSlow(std::time::Duration),
    /// A codec refused the request or could not write the response.
    #[error("{message}")]
    Codec {
        /// The codec's own text.
        message: String,
        /// The codec's own code.
        code: Code,
    },
    /// The repository never had a model of that name.
    #[error("Request for unknown model: '{0}' is not found")]
    UnknownModel(String),
    /// The model is known, but not that version of it.
    #[error("Request for unknown model: '{model}' version {version} is not found")]
    UnknownVersion {
        /// The model's name as requested.
        model: String,
        /// The version as requested.
        version: String,
    },
    /// The model is known, but no version of it is ready.
    #[error("Request for unknown model: '{0}' has no available versions")]
    NoVersions(String),
    /// The version is loading, unloading or failed.
    #[error("Request for unknown model: '{model}' version {version} is not at ready state")]
    VersionNotReady {
        /// The model's name as requested.
        model: String,
        /// The version as requested.
        version: String,
    },
    /// The model is being unloaded and accepts no more requests.
    #[error("Server is stopping, scheduler for model has stopped accepting new inference requests")]
    Draining,
    /// The process is exiting.
    #[error("Server exiting")]
    Exiting,
    /// Each of the model's instances is stuck in a batch.
    #[error(
        "model '{0}' is stuck: its batches have run for longer than allowed (--max-batch-seconds), and the server has to be restarted"
    )]
    Stalled(String),
    /// A batch is stuck, so the process is not live; the text names the batch.
    #[error("{0}")]
    Stuck(String),
    /// The queue is full.
    #[error("Exceeds maximum queue size")]
    QueueFull,
    /// The queue is so long that the request would expire in it.
    #[error("predicted wait of {predicted_ms} ms is more than the {allowed_ms} ms allowed")]
    PredictedWait {
        /// Predicted wait of the request, milliseconds.
        predicted_ms: u64,
        /// Longest wait that the request or the model allows, milliseconds.
        allowed_ms: u64,
        /// The setting that the limit comes from.
        bound: Bound,
    },
    /// The request's body or its inputs in shared memory would leave too little of the memory budget to other requests.
    #[error(
        "request bodies in flight would take too much of their memory budget of {limit} bytes. Try again, or use --max-inflight-bytes to increase the limit."
    )]
    BodyBudgetExhausted {
        /// The budget in bytes (`--max-inflight-bytes`).
        limit: usize,
    },
    /// The response, with those that clients have not read yet and with request bodies, would leave too little of the
    /// memory budget to other requests.
    #[error(
        "responses and request bodies in flight would take too much of their memory budget of {limit} bytes. Try again, or use --max-inflight-bytes to increase the limit."
    )]
    AnswerBudgetExhausted {
        /// The budget in bytes (`--max-inflight-bytes`).
        limit: usize,
    },
    /// The timeout of the request or of the queue policy passed while the request was queued.
    #[error("Request timeout expired")]
    QueueTimeout {
        /// The timeout, if the request set it.
        own: Option<Duration>,
    },
    /// The caller's deadline passed, in the queue or on the device.
    #[error("deadline exceeded after {waited_ms} ms, in the queue or in the model")]
    DeadlineExceeded {
        /// Time since the request arrived, in milliseconds.
        waited_ms: u64,
    },
    /// The model raised an error or panicked, or its thread ended.
    #[error("{0}")]
    Model(String),
    /// The device had too little memory even for one request.
    #[error("{0}")]
    OutOfMemory(String),
    /// A load, an unload or a scan of the repository failed.
    #[error("{message}")]
    Repository {
        /// The text for the client.
        message: String,
        /// The code for the client.
        code: Code,
    },
    /// The body has a content coding that the server does not support.
    #[error("Unsupported compression type")]
    UnknownCoding,
    /// A call that the server does not support.
    #[error("{0}")]
    Unimplemented(String),
    /// A gRPC call came to the HTTP port; its client can read only a gRPC response.
    #[error("this port speaks V2 over HTTP: send gRPC calls to the gRPC port")]
    GrpcAtHttpPort,
    /// No such path, or no such shared-memory region.
    #[error("{0}")]
    NotFound(String),
    /// A call of a restricted group lacks the header that the group requires.
    #[error("{0}")]
    Restricted(String),
    /// A call that controls the server, while `--control-routes closed` refuses such calls.
    #[error("{0} calls are closed here (--control-routes closed): ask the platform that started this server")]
    Forbidden(&'static str),
    /// A call that controls the server, made by a web page of another site.
    #[error("{0}")]
    ForeignOrigin(String),
    /// The request exceeds a limit that a flag sets.
    #[error("{0}")]
    TooLarge(String),
    /// The path exists, but not with this method.
    #[error("Method Not Allowed")]
    MethodNotAllowed {
        /// The methods that the path has, as in the header `Allow` (RFC 9110, 15.5.6).
        allowed: &'static str,
    },
}

impl ServeError {
    /// Wraps the error of a codec or a setting, with its code.
    pub fn codec(error: impl Coded) -> Self {
        Self::Codec { message: error.to_string(), code: error.code() }
    }

    /// Returns the kind of refusal if the request was refused before any work on it.
    #[must_use]
    pub fn refusal(&self) -> Option<Refused> {
        match self {
            Self::Draining
            | Self::Exiting
            | Self::QueueFull
            | Self::PredictedWait { bound: Bound::Policy, .. }
            | Self::BodyBudgetExhausted { .. } => Some(Refused::Busy),
            Self::Stalled(_) => Some(Refused::Stuck),
            Self::PredictedWait { bound: Bound::Item, .. } => Some(Refused::Late),
            Self::QueueTimeout { own: Some(own) } if blame_for_client_deadline(*own) == Blame::Caller => {
                Some(Refused::ShortTimeout)
            }
            Self::Invalid(_)
            | Self::TooSlow(_)
            | Self::Codec { .. }
            | Self::UnknownModel(_)
            | Self::UnknownVersion { .. }
            | Self::NoVersions(_)
            | Self::VersionNotReady { .. }
            | Self::Stuck(_)
            | Self::AnswerBudgetExhausted { .. }
            | Self::QueueTimeout { .. }
            | Self::DeadlineExceeded { .. }
            | Self::Model(_)
            | Self::OutOfMemory(_)
            | Self::Repository { .. }
            | Self::Unimplemented(_)
            | Self::GrpcAtHttpPort
            | Self::UnknownCoding
            | Self::NotFound(_)
            | Self::Restricted(_)
            | Self::Forbidden(_)
            | Self::ForeignOrigin(_)
            | Self::TooLarge(_)
            | Self::MethodNotAllowed { .. } => None,
        }
    }
}

/// A refusal before any work on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The replica is overloaded or exiting; another replica, or a later retry, may succeed.
    Busy,
    /// The request's own time limit would pass in the queue, so a retry could only be later.
    Late,
    /// The request's own time limit passed in the queue and was so short that the client, not the server, is to blame.
    ShortTimeout,
    /// The replica does not work until it is restarted; another replica may succeed.
    Stuck,
}

impl Refused {
    /// Value of the header `weir-refused`, from which a gateway decides on a retry.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Busy => "1",
            Self::Late => "0",
            Self::Stuck => "2",
            Self::ShortTimeout => "3",
        }
    }
}

impl From<BudgetExhausted> for ServeError {
    fn from(BudgetExhausted { limit, .. }: BudgetExhausted) -> Self {
        Self::BodyBudgetExhausted { limit }
    }
}

impl From<Ambiguous> for ServeError {
    fn from(ambiguous: Ambiguous) -> Self {
        Self::Invalid(ambiguous.to_string())
    }
}

impl From<SubmitError> for ServeError {
    fn from(error: SubmitError) -> Self {
        let ms = |duration: std::time::Duration| duration.as_millis() as u64;
        match error {
            SubmitError::QueueFull => Self::QueueFull,
            SubmitError::PredictedWait { predicted, allowed, bound } => {
                Self::PredictedWait { predicted_ms: ms(predicted), allowed_ms: ms(allowed), bound }
            }
            SubmitError::Expired { own } => Self::QueueTimeout { own },
            SubmitError::DeadlineExceeded { waited } => Self::DeadlineExceeded { waited_ms: ms(waited) },
            SubmitError::Draining => Self::Draining,
            SubmitError::Lost => Self::Model("the model's thread ended unexpectedly".to_owned()),
        }
    }
}

impl Coded for ServeError {
    fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::TooSlow(_) => Code::TooSlow,
            Self::Codec { code, .. } | Self::Repository { code, .. } => *code,
            Self::UnknownModel(_) | Self::UnknownVersion { .. } | Self::NotFound(_) => Code::NotFound,
            Self::NoVersions(_)
            | Self::VersionNotReady { .. }
            | Self::Draining
            | Self::Exiting
            | Self::Stalled(_)
            | Self::Stuck(_)
            | Self::QueueTimeout { .. } => Code::Unavailable,
            Self::QueueFull
            | Self::PredictedWait { .. }
            | Self::BodyBudgetExhausted { .. }
            | Self::AnswerBudgetExhausted { .. } => Code::Overloaded,
            Self::DeadlineExceeded { .. } => Code::DeadlineExceeded,
            Self::Model(_) | Self::OutOfMemory(_) => Code::Internal,
            Self::Unimplemented(_) | Self::GrpcAtHttpPort => Code::Unimplemented,
            Self::UnknownCoding => Code::UnknownCoding,
            Self::Restricted(_) => Code::Restricted,
            Self::Forbidden(_) | Self::ForeignOrigin(_) => Code::Forbidden,
            Self::TooLarge(_) => Code::TooLarge,
            Self::MethodNotAllowed { .. } => Code::MethodNotAllowed,
        }
    }
}

/// Returns the message of a panic, for errors and logs.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
