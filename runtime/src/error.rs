//! What can go wrong while serving, and which [`Code`] each cause has.

use weir_batcher::SubmitError;
use weir_protocol::{Code, Coded};

/// Why a call was not answered as asked. `Display` is what the client reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// The request contradicts the model's signature or itself.
    #[error("{0}")]
    Invalid(String),
    /// A codec refused the request, or could not write the response.
    #[error("{message}")]
    Codec {
        /// As the codec says it.
        message: String,
        /// Its code.
        code: Code,
    },
    /// No model of that name was ever in the repository.
    #[error("Request for unknown model: '{0}' is not found")]
    UnknownModel(String),
    /// The model is there, that version is not.
    #[error("Request for unknown model: '{model}' version {version} is not found")]
    UnknownVersion {
        /// The model's name.
        model: String,
        /// The version asked for.
        version: String,
    },
    /// The model is known, but no version of it is ready.
    #[error("Request for unknown model: '{0}' has no available versions")]
    NoVersions(String),
    /// The version is loading, unloading or failed.
    #[error("Request for unknown model: '{model}' version {version} is not at ready state")]
    VersionNotReady {
        /// The model's name.
        model: String,
        /// The version asked for.
        version: String,
    },
    /// The model is being unloaded and takes nothing new.
    #[error("Server is stopping, scheduler for model has stopped accepting new inference requests")]
    Draining,
    /// The process is ending.
    #[error("Server exiting")]
    Exiting,
    /// The queue is full.
    #[error("Exceeds maximum queue size")]
    QueueFull,
    /// The queue is so long that the request would expire in it.
    #[error("predicted wait of {predicted_ms} ms is more than the {allowed_ms} ms allowed")]
    PredictedWait {
        /// What waiting would take.
        predicted_ms: u64,
        /// What the request or the model allows.
        allowed_ms: u64,
    },
    /// Request bodies already hold all the memory they may.
    #[error(
        "request bodies under way would hold more than {limit} bytes together. Try again, or use --max-inflight-bytes to increase the limit."
    )]
    IntakeFull {
        /// What they may hold.
        limit: usize,
    },
    /// The queue policy's or the request's timeout passed while it waited.
    #[error("Request timeout expired")]
    QueueTimeout,
    /// The caller's deadline passed while it waited.
    #[error("deadline exceeded after {waited_ms} ms in the queue")]
    DeadlineExceeded {
        /// How long it waited.
        waited_ms: u64,
    },
    /// The model raised an error, panicked, or lost its thread.
    #[error("{0}")]
    Model(String),
    /// The device had no memory left, even for one request.
    #[error("{0}")]
    OutOfMemory(String),
    /// The repository could not do what was asked.
    #[error("{message}")]
    Repository {
        /// What went wrong.
        message: String,
        /// Its code.
        code: Code,
    },
    /// The server does not do this.
    #[error("{0}")]
    Unimplemented(String),
    /// No such path or region.
    #[error("{0}")]
    NotFound(String),
    /// The interface wants a key header.
    #[error("{0}")]
    Restricted(String),
    /// Larger than a limit that a flag sets.
    #[error("{0}")]
    TooLarge(String),
    /// The path exists, the method does not fit.
    #[error("Method Not Allowed")]
    MethodNotAllowed,
}

impl ServeError {
    /// Wraps a codec's or setting's error with its code.
    pub fn codec(error: &impl Coded) -> Self {
        Self::Codec {
            message: error.to_string(),
            code: error.code(),
        }
    }

    /// Whether the request was turned away before any work on it, and for a reason that another replica may
    /// not have.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Draining
            | Self::Exiting
            | Self::QueueFull
            | Self::PredictedWait { .. }
            | Self::IntakeFull { .. } => true,
            Self::Invalid(_)
            | Self::Codec { .. }
            | Self::UnknownModel(_)
            | Self::UnknownVersion { .. }
            | Self::NoVersions(_)
            | Self::VersionNotReady { .. }
            | Self::QueueTimeout
            | Self::DeadlineExceeded { .. }
            | Self::Model(_)
            | Self::OutOfMemory(_)
            | Self::Repository { .. }
            | Self::Unimplemented(_)
            | Self::NotFound(_)
            | Self::Restricted(_)
            | Self::TooLarge(_)
            | Self::MethodNotAllowed => false,
        }
    }
}

impl From<SubmitError> for ServeError {
    fn from(error: SubmitError) -> Self {
        let ms = |duration: std::time::Duration| duration.as_millis() as u64;
        match error {
            SubmitError::QueueFull => Self::QueueFull,
            SubmitError::PredictedWait { predicted, allowed } => Self::PredictedWait {
                predicted_ms: ms(predicted),
                allowed_ms: ms(allowed),
            },
            SubmitError::Expired => Self::QueueTimeout,
            SubmitError::DeadlineExceeded { waited } => Self::DeadlineExceeded {
                waited_ms: ms(waited),
            },
            SubmitError::Draining => Self::Draining,
            SubmitError::Lost => Self::Model("the model's thread ended unexpectedly".to_owned()),
        }
    }
}

impl Coded for ServeError {
    fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::Codec { code, .. } | Self::Repository { code, .. } => *code,
            Self::UnknownModel(_) | Self::UnknownVersion { .. } | Self::NotFound(_) => {
                Code::NotFound
            }
            Self::NoVersions(_)
            | Self::VersionNotReady { .. }
            | Self::Draining
            | Self::Exiting
            | Self::QueueTimeout => Code::Unavailable,
            Self::QueueFull | Self::PredictedWait { .. } | Self::IntakeFull { .. } => {
                Code::Overloaded
            }
            Self::DeadlineExceeded { .. } => Code::DeadlineExceeded,
            Self::Model(_) | Self::OutOfMemory(_) => Code::Internal,
            Self::Unimplemented(_) => Code::Unimplemented,
            Self::Restricted(_) => Code::Restricted,
            Self::TooLarge(_) => Code::TooLarge,
            Self::MethodNotAllowed => Code::MethodNotAllowed,
        }
    }
}
