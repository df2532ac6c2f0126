//! Refuses requests that are not gRPC with an HTTP error. To clients of another protocol, a response with status 200
//! and gRPC trailers would look like a success.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use weir_protocol::rest;

use super::unary::ReplyBody;

/// The error text for clients that speak another protocol.
pub(super) const SENTENCE: &str = "this port speaks gRPC, whose content-type is application/grpc: send V2 over HTTP to the HTTP port, \
                        and gRPC-Web through a proxy that translates it";

/// Returns true for the headers of a gRPC call. gRPC-Web counts as another protocol, because it needs a proxy that
/// translates it.
pub(in crate::api) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc") && !kind.starts_with(b"application/grpc-web"))
}

/// Returns the response to a request that is not a gRPC call.
pub(super) fn refusal() -> Response<ReplyBody> {
    let body = rest::error_body(SENTENCE);
    let mut response = Response::new(ReplyBody::Message { data: Some(body), trailers: None });
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grpc_content_type_is_recognised() {
        let is = |kind| {
            let kind = (CONTENT_TYPE, HeaderValue::from_static(kind));
            is_grpc(&HeaderMap::from_iter([kind]))
        };
        assert!(is("application/grpc") && is("application/grpc+proto"));
        assert!(is("application/grpc;charset=utf-8"));
        assert!(!is("application/grpc-web+proto") && !is("application/json"));
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
