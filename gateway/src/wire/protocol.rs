//! The two protocols in which requests are forwarded. This module and `codec` contain what differs between them.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use weir_serve::header_names;

/// Protocol in which a request is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    /// HTTP/1.1 or HTTP/2, with one body in each direction.
    Http,
    /// gRPC: HTTP/2 with messages and trailers.
    Grpc,
}

impl Protocol {
    /// Returns the protocol of a request with these headers. gRPC has its own content type.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let kind = header_names::first(headers, &CONTENT_TYPE).map(http::HeaderValue::as_bytes);
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

/// Returns true for gRPC-Web, which has its trailers in the body and is forwarded as HTTP.
fn is_web(kind: &[u8]) -> bool {
    kind.starts_with(b"application/grpc-web")
}
