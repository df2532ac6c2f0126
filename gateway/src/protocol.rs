//! The two wires: what differs between them is told here and in the files of `codec`.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// How a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    /// HTTP/1.1 or HTTP/2, one body each way.
    Http,
    /// HTTP/2 with messages and trailers.
    Grpc,
}

impl Protocol {
    /// gRPC announces itself by its content type.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
        match kind {
            Some(kind) if kind.starts_with(b"application/grpc") && !is_web(kind) => Self::Grpc,
            Some(_) | None => Self::Http,
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }
}

/// gRPC for browsers carries its trailers in its body: for us it is plain HTTP.
fn is_web(kind: &[u8]) -> bool {
    kind.starts_with(b"application/grpc-web")
}
