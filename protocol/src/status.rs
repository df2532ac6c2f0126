//! The only file that knows how failure is spelled on the wire.

use http::StatusCode;

/// What went wrong, in the few words a client can act on. Closed on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request cannot be right, whatever the server's state.
    InvalidArgument,
    /// No such model, version, region or path.
    NotFound,
    /// The path exists, but not with this method.
    MethodNotAllowed,
    /// The request is larger than the server takes.
    TooLarge,
    /// What is to be made is there already.
    AlreadyExists,
    /// The interface is closed to callers without its key.
    Restricted,
    /// The model or server is not ready, or not any more; trying again later may help.
    Unavailable,
    /// The queue is full or its predicted wait too long; backing off helps.
    Overloaded,
    /// The time the caller gave has passed.
    DeadlineExceeded,
    /// The caller went away.
    Cancelled,
    /// The server does not do this.
    Unimplemented,
    /// The model or the server failed.
    Internal,
}

/// An error that knows its [`Code`].
pub trait Coded: std::error::Error {
    /// What a client may make of it.
    fn code(&self) -> Code;
}

impl Code {
    /// Every code there is.
    pub const ALL: [Self; 12] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::TooLarge,
        Self::AlreadyExists,
        Self::Restricted,
        Self::Unavailable,
        Self::Overloaded,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::Unimplemented,
        Self::Internal,
    ];

    /// The HTTP status.
    #[must_use]
    pub const fn http(self) -> StatusCode {
        match self {
            // For `Cancelled`, 499 is nobody's standard; the client that could read it is gone.
            Self::InvalidArgument | Self::AlreadyExists | Self::Cancelled => {
                StatusCode::BAD_REQUEST
            }
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Restricted => StatusCode::FORBIDDEN,
            Self::Unavailable | Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The gRPC status.
    #[must_use]
    pub const fn grpc(self) -> tonic::Code {
        match self {
            Self::InvalidArgument => tonic::Code::InvalidArgument,
            Self::NotFound => tonic::Code::NotFound,
            Self::MethodNotAllowed | Self::Unimplemented => tonic::Code::Unimplemented,
            Self::TooLarge | Self::Overloaded => tonic::Code::ResourceExhausted,
            Self::AlreadyExists => tonic::Code::AlreadyExists,
            Self::Restricted | Self::Unavailable => tonic::Code::Unavailable,
            Self::DeadlineExceeded => tonic::Code::DeadlineExceeded,
            Self::Cancelled => tonic::Code::Cancelled,
            Self::Internal => tonic::Code::Internal,
        }
    }

    /// The code nearest to a gRPC status that somebody else chose; `None` for success.
    #[must_use]
    pub const fn of_grpc(status: tonic::Code) -> Option<Self> {
        match status {
            tonic::Code::Ok => None,
            tonic::Code::InvalidArgument
            | tonic::Code::OutOfRange
            | tonic::Code::FailedPrecondition => Some(Self::InvalidArgument),
            tonic::Code::NotFound => Some(Self::NotFound),
            tonic::Code::AlreadyExists => Some(Self::AlreadyExists),
            tonic::Code::PermissionDenied | tonic::Code::Unauthenticated => Some(Self::Restricted),
            tonic::Code::Unavailable => Some(Self::Unavailable),
            tonic::Code::ResourceExhausted => Some(Self::Overloaded),
            tonic::Code::DeadlineExceeded => Some(Self::DeadlineExceeded),
            tonic::Code::Cancelled => Some(Self::Cancelled),
            tonic::Code::Unimplemented => Some(Self::Unimplemented),
            tonic::Code::Internal
            | tonic::Code::Unknown
            | tonic::Code::Aborted
            | tonic::Code::DataLoss => Some(Self::Internal),
        }
    }

    /// The word for metric labels and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::TooLarge => "too_large",
            Self::AlreadyExists => "already_exists",
            Self::Restricted => "restricted",
            Self::Unavailable => "unavailable",
            Self::Overloaded => "overloaded",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Cancelled => "cancelled",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
        }
    }
}
