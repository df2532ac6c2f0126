//! Requests that are no gRPC, which the port refuses in HTTP's own words. An answer with status 200 and gRPC's trailers
//! would look like a success to a client of anything else.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use weir_protocol::rest;

use super::unary::ReplyBody;

/// What a client is told that speaks something else.
pub(super) const SENTENCE: &str = "this port speaks gRPC, whose content-type is application/grpc: send V2 over HTTP to the HTTP port, \
                        and gRPC-Web through a proxy that translates it";

/// True if these headers are those of a gRPC call. Translated by no proxy, gRPC-Web is none.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc") && !kind.starts_with(b"application/grpc-web"))
}

/// The response to a request that is no gRPC call.
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
    fn every_encoding_of_grpc_is_grpc() {
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
