//! Responses and their headers.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, Version};
use weir_protocol::grpc;
use weir_protocol::rest;
use weir_protocol::{Code, Coded};

use super::body::Body;
use crate::engine::Cost;
use crate::error::ServeError;
use crate::serving_headers;

/// Echoed when the client sends it.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Times of the request; a standard that browsers and proxies show.
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Requests the server can work on at once, for all models together; the gateway's credits come from it.
pub(super) const CAPACITY: HeaderName = HeaderName::from_static("weir-capacity");

/// The batch a request was part of.
const BATCH: HeaderName = HeaderName::from_static("weir-batch");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// 200 with a JSON body.
pub(super) fn json(body: impl Into<Bytes>) -> Response<Body> {
    typed(JSON, Body::from(body.into()))
}

/// 200 without a body, as Triton answers changes.
pub(super) fn empty() -> Response<Body> {
    Response::new(Body::default())
}

/// 200 with that body.
pub(super) fn typed(content_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// The response without its body, whose length it has: over HTTP/2, hyper would send the body.
pub(super) fn head_of(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = http_body::Body::size_hint(&body).exact() {
        parts.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(parts, Body::default())
}

/// Ends an HTTP/1.1 connection with this response, so that its client sends nothing more on it.
pub(super) fn end_connection(response: &mut Response<Body>, version: Version) {
    if version < Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
}

/// The error of a request that no call has, as its caller reads it: one that took this port for gRPC's reads no JSON.
/// One of gRPC-Web reads HTTP's status, and would take 200 for a success.
pub(super) fn of_caller(error: ServeError, headers: &HeaderMap) -> ServeError {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_grpc =
        kind.is_some_and(|kind| kind.starts_with(b"application/grpc") && !kind.starts_with(b"application/grpc-web"));
    if is_grpc { ServeError::GrpcAtHttpPort } else { error }
}

/// Turns an error into a response; the only place that does.
pub(super) fn error(error: &ServeError) -> Response<Body> {
    let code = error.code();
    if let ServeError::GrpcAtHttpPort = error {
        return grpc::status(error).into_http();
    }
    let mut response = json(rest::error_body(&error.to_string()));
    *response.status_mut() = code.http();
    if let Some(refused) = error.refusal() {
        let label = HeaderValue::from_static(refused.label());
        response.headers_mut().insert(serving_headers::REFUSED, label);
    }
    if let ServeError::MethodNotAllowed { allowed } = error {
        let allowed = HeaderValue::from_static(allowed);
        response.headers_mut().insert(ALLOW, allowed);
    }
    match code {
        // One second: a queue that refuses is some batches deep, never minutes.
        Code::Overloaded => {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        Code::UnknownCoding => {
            let codings = HeaderValue::from_static("gzip, deflate");
            response.headers_mut().insert(ACCEPT_ENCODING, codings);
        }
        Code::InvalidArgument
        | Code::NotFound
        | Code::MethodNotAllowed
        | Code::TooLarge
        | Code::AlreadyExists
        | Code::Restricted
        | Code::Forbidden
        | Code::Unavailable
        | Code::DeadlineExceeded
        | Code::TooSlow
        | Code::Cancelled
        | Code::Unimplemented
        | Code::Internal => {}
    }
    response
}

/// Adds the headers with an inference's cost and the server's capacity.
pub(super) fn add_cost(response: &mut Response<Body>, cost: &Cost, capacity: usize) {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::try_from(serving_headers::server_timing(cost)) {
        headers.insert(SERVER_TIMING, value);
    }
    headers.insert(CAPACITY, HeaderValue::from(capacity));
    if let Ok(value) = HeaderValue::try_from(serving_headers::batch(cost)) {
        headers.insert(BATCH, value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_batcher::Bound;

    use super::*;

    #[test]
    fn a_wrong_method_is_told_the_right_ones() {
        let response = error(&ServeError::MethodNotAllowed { allowed: "POST" });
        assert_eq!(response.status(), 405);
        assert_eq!(response.headers()["allow"], "POST");
    }

    #[test]
    fn a_grpc_call_is_told_the_port_as_its_client_reads_it() {
        let of = |kind| {
            let kind = (CONTENT_TYPE, HeaderValue::from_static(kind));
            let lost = ServeError::NotFound("Not Found".to_owned());
            error(&of_caller(lost, &HeaderMap::from_iter([kind])))
        };
        let grpc = of("application/grpc+proto");
        assert_eq!(grpc.status(), 200);
        assert_eq!(grpc.headers()["grpc-status"], "12");
        let message = grpc.headers()["grpc-message"].to_str().unwrap();
        assert!(message.contains("gRPC%20port"), "{message}");
        for other in ["application/json", "application/grpc-web+proto", "application/grpc-web-text"] {
            assert_eq!(of(other).status(), 404, "{other}");
        }
    }

    #[test]
    fn only_a_refusal_before_work_is_marked_as_one() {
        let full = error(&ServeError::QueueFull);
        assert_eq!(full.status(), 503);
        assert_eq!(full.headers()["weir-refused"], "1");
        assert_eq!(full.headers()["retry-after"], "1");
        let exiting = error(&ServeError::Exiting);
        assert_eq!(exiting.headers()["weir-refused"], "1");
        let (predicted_ms, allowed_ms) = (9, 5);
        for (bound, label) in [(Bound::Policy, "1"), (Bound::Item, "0")] {
            let late = error(&ServeError::PredictedWait { predicted_ms, allowed_ms, bound });
            assert_eq!(late.headers()["weir-refused"], label, "{bound:?}");
        }
        let own = Some(Duration::from_millis(999));
        let hasty = error(&ServeError::QueueTimeout { own });
        assert_eq!(hasty.headers()["weir-refused"], "3");
        for worked in [
            ServeError::QueueTimeout { own: None },
            ServeError::QueueTimeout { own: Some(Duration::from_secs(1)) },
            ServeError::TooLarge("x".to_owned()),
        ] {
            assert!(!error(&worked).headers().contains_key("weir-refused"));
        }
    }
}
