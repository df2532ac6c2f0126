//! The two protocols that requests are forwarded in. Their differences are here and in `codec`.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use weir_ops::header_names;

/// Protocol that a request is forwarded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    /// HTTP/1.1 or HTTP/2, one body each way.
    Http,
    /// HTTP/2 with messages and trailers.
    Grpc,
}

impl Protocol {
    /// The protocol of a request with these headers: gRPC has a content type of its own.
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

/// Whether it is gRPC-Web, which has its trailers in its body and is forwarded as HTTP.
fn is_web(kind: &[u8]) -> bool {
    kind.starts_with(b"application/grpc-web")
}
