//! The only file that maps failures to HTTP and gRPC statuses.

use std::time::Duration;

use http::StatusCode;

/// Cause of a failure, in categories that a client can act on. The set is closed on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request is invalid, whatever the server's state.
    InvalidArgument,
    /// The model, version, region or path does not exist.
    NotFound,
    /// The path exists, but not with this method.
    MethodNotAllowed,
    /// The request is larger than the server accepts.
    TooLarge,
    /// The thing to be created already exists.
    AlreadyExists,
    /// The caller sent no valid key or token, and the request needs one.
    Unauthenticated,
    /// The interface requires a key that the caller did not send.
    Restricted,
    /// The interface is closed to this caller, whatever key it has.
    Forbidden,
    /// The model or server is not ready or is shutting down; trying again later may help.
    Unavailable,
    /// The queue is full or the predicted wait is too long; backing off helps.
    Overloaded,
    /// The caller has used up a limit of its own; trying again later helps.
    OverLimit,
    /// The deadline has passed, which the caller or the service set.
    DeadlineExceeded,
    /// The caller stalled or sent its request too slowly.
    TooSlow,
    /// The caller disconnected or cancelled the request.
    Cancelled,
    /// The server does not support the compression of the request.
    UnknownCoding,
    /// The server does not implement this call.
    Unimplemented,
    /// The model or the server failed.
    Internal,
}

/// Party that is responsible for a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The caller: the same request would fail at every server.
    Caller,
    /// Load: there was no capacity for the request, and no work was done on it.
    Load,
    /// The server or its model.
    Server,
}

/// An error that has a [`Code`].
pub trait Coded: std::error::Error {
    /// Returns the category of the failure, for the client.
    fn code(&self) -> Code;
}

impl Code {
    /// All codes, each exactly once.
    pub const ALL: [Self; 17] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::TooLarge,
        Self::AlreadyExists,
        Self::Unauthenticated,
        Self::Restricted,
        Self::Forbidden,
        Self::Unavailable,
        Self::Overloaded,
        Self::OverLimit,
        Self::DeadlineExceeded,
        Self::TooSlow,
        Self::Cancelled,
        Self::UnknownCoding,
        Self::Unimplemented,
        Self::Internal,
    ];

    /// Returns the HTTP status of this code.
    #[must_use]
    pub const fn http(self) -> StatusCode {
        match self {
            // `Cancelled` has no standard status (499 is not one), and the client that could read it has gone.
            Self::InvalidArgument | Self::AlreadyExists | Self::Cancelled => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Restricted | Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Unavailable | Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::OverLimit => StatusCode::TOO_MANY_REQUESTS,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::UnknownCoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the gRPC status of this code.
    #[must_use]
    pub const fn grpc(self) -> tonic::Code {
        match self {
            // gRPC has no status for a slow caller, and `DeadlineExceeded` would blame the server.
            Self::InvalidArgument | Self::TooSlow => tonic::Code::InvalidArgument,
            Self::NotFound => tonic::Code::NotFound,
            Self::MethodNotAllowed | Self::UnknownCoding | Self::Unimplemented => tonic::Code::Unimplemented,
            Self::TooLarge | Self::Overloaded | Self::OverLimit => tonic::Code::ResourceExhausted,
            Self::AlreadyExists => tonic::Code::AlreadyExists,
            Self::Unauthenticated => tonic::Code::Unauthenticated,
            Self::Restricted | Self::Unavailable => tonic::Code::Unavailable,
            Self::Forbidden => tonic::Code::PermissionDenied,
            Self::DeadlineExceeded => tonic::Code::DeadlineExceeded,
            Self::Cancelled => tonic::Code::Cancelled,
            Self::Internal => tonic::Code::Internal,
        }
    }

    /// Returns the code nearest to a gRPC status from another server; `None` for success.
    #[must_use]
    pub const fn of_grpc(status: tonic::Code) -> Option<Self> {
        match status {
            tonic::Code::Ok => None,
            tonic::Code::InvalidArgument | tonic::Code::OutOfRange | tonic::Code::FailedPrecondition => {
                Some(Self::InvalidArgument)
            }
            tonic::Code::NotFound => Some(Self::NotFound),
            tonic::Code::AlreadyExists => Some(Self::AlreadyExists),
            tonic::Code::PermissionDenied => Some(Self::Forbidden),
            tonic::Code::Unauthenticated => Some(Self::Unauthenticated),
            tonic::Code::Unavailable => Some(Self::Unavailable),
            tonic::Code::ResourceExhausted => Some(Self::Overloaded),
            tonic::Code::DeadlineExceeded => Some(Self::DeadlineExceeded),
            tonic::Code::Cancelled => Some(Self::Cancelled),
            tonic::Code::Unimplemented => Some(Self::Unimplemented),
            tonic::Code::Internal | tonic::Code::Unknown | tonic::Code::Aborted | tonic::Code::DataLoss => {
                Some(Self::Internal)
            }
        }
    }

    /// Returns the code nearest to an HTTP status from another server; `None` for a status that is not an error.
    #[must_use]
    pub fn of_http(status: StatusCode) -> Option<Self> {
        match status {
            StatusCode::UNAUTHORIZED => Some(Self::Unauthenticated),
            StatusCode::FORBIDDEN => Some(Self::Restricted),
            StatusCode::NOT_FOUND => Some(Self::NotFound),
            StatusCode::METHOD_NOT_ALLOWED => Some(Self::MethodNotAllowed),
            StatusCode::CONFLICT => Some(Self::AlreadyExists),
            StatusCode::PAYLOAD_TOO_LARGE => Some(Self::TooLarge),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Some(Self::UnknownCoding),
            StatusCode::TOO_MANY_REQUESTS => Some(Self::OverLimit),
            StatusCode::NOT_IMPLEMENTED => Some(Self::Unimplemented),
            StatusCode::SERVICE_UNAVAILABLE => Some(Self::Unavailable),
            StatusCode::GATEWAY_TIMEOUT => Some(Self::DeadlineExceeded),
            StatusCode::REQUEST_TIMEOUT => Some(Self::TooSlow),
            status if status.is_client_error() => Some(Self::InvalidArgument),
            status if status.is_server_error() => Some(Self::Internal),
            _ => None,
        }
    }

    /// Returns the party that is responsible for a failure with this code.
    #[must_use]
    pub const fn blame(self) -> Blame {
        match self {
            Self::InvalidArgument
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::TooLarge
            | Self::AlreadyExists
            | Self::Unauthenticated
            | Self::Restricted
            | Self::Forbidden
            | Self::TooSlow
            | Self::Cancelled
            | Self::UnknownCoding
            | Self::Unimplemented => Blame::Caller,
            Self::Overloaded | Self::OverLimit => Blame::Load,
            Self::Unavailable | Self::DeadlineExceeded | Self::Internal => Blame::Server,
        }
    }

    /// Returns the word for metric labels and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::TooLarge => "too_large",
            Self::AlreadyExists => "already_exists",
            Self::Unauthenticated => "unauthenticated",
            Self::Restricted => "restricted",
            Self::Forbidden => "forbidden",
            Self::Unavailable => "unavailable",
            Self::Overloaded => "overloaded",
            Self::OverLimit => "over_limit",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::TooSlow => "too_slow",
            Self::Cancelled => "cancelled",
            Self::UnknownCoding => "unknown_coding",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
        }
    }
}

/// Shortest deadline set by a client whose passing counts against the server.
///
/// A deadline that any client can choose must not decide if a revision counts as failing: with one millisecond, every
/// model misses it. One second is longer than nearly every model needs for a request, and clients of slower models know
/// that and set longer deadlines. This hides no failure: a replica that hangs is found by its probes and by the age of
/// its batch, and the service's own timeout counts, however short it is.
const SHORTEST_COUNTED: Duration = Duration::from_secs(1);

/// Returns the blame for a response that misses a client's own deadline of `time`, counted from the end of the request.
#[must_use]
pub fn blame_for_client_deadline(time: Duration) -> Blame {
    if time < SHORTEST_COUNTED { Blame::Caller } else { Blame::Server }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grpc_status_except_success_has_a_blame() {
        use tonic::Code as Grpc;
        let blame = |status| Code::of_grpc(status).map(Code::blame);
        for status in [
            Grpc::InvalidArgument,
            Grpc::NotFound,
            Grpc::AlreadyExists,
            Grpc::PermissionDenied,
            Grpc::Unauthenticated,
            Grpc::FailedPrecondition,
            Grpc::OutOfRange,
            Grpc::Unimplemented,
            Grpc::Cancelled,
        ] {
            assert_eq!(blame(status), Some(Blame::Caller), "{status:?}");
        }
        for status in
            [Grpc::Unknown, Grpc::Internal, Grpc::Unavailable, Grpc::DataLoss, Grpc::DeadlineExceeded, Grpc::Aborted]
        {
            assert_eq!(blame(status), Some(Blame::Server), "{status:?}");
        }
        assert_eq!(blame(Grpc::ResourceExhausted), Some(Blame::Load));
        assert_eq!(blame(Grpc::Ok), None);
    }

    #[test]
    fn an_http_status_has_the_blame_of_its_code() {
        for code in Code::ALL {
            let blame = Code::of_http(code.http()).map(Code::blame);
            // Over HTTP, 503 alone does not show a refusal; the response headers do.
            let expected = match code {
                Code::Overloaded => Blame::Server,
                other => other.blame(),
            };
            assert_eq!(blame, Some(expected), "{code:?}");
        }
        let of = |status| Code::of_http(StatusCode::from_u16(status).unwrap());
        assert_eq!(of(429).map(Code::blame), Some(Blame::Load));
        assert_eq!(of(418).map(Code::blame), Some(Blame::Caller));
        assert_eq!(of(502).map(Code::blame), Some(Blame::Server));
        assert_eq!((of(200), of(304)), (None, None));
    }

    #[test]
    fn deadlines_under_a_second_are_blamed_on_the_caller() {
        let of = |ms| blame_for_client_deadline(Duration::from_millis(ms));
        assert_eq!((of(0), of(999)), (Blame::Caller, Blame::Caller));
        assert_eq!((of(1000), of(60_000)), (Blame::Server, Blame::Server));
    }
}
