//! Responses and their headers.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use weir_protocol::grpc;
use weir_protocol::rest;
use weir_protocol::{Code, Coded};

use super::body::Body;
use crate::api::grpc::content_type;
use crate::api::serving_headers;
use crate::engine::Cost;
use crate::error::ServeError;

/// Header with the client's request id, which the response repeats.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Header with the durations of the request: a web standard that browsers and proxies display.
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Header with the number of requests that all models of the server together run at once. The gateway derives its
/// credits from it.
pub(super) const CAPACITY: HeaderName = HeaderName::from_static("weir-capacity");

/// Header with the rows and the duration in microseconds of the request's batch: `size=…;us=…`.
const BATCH: HeaderName = HeaderName::from_static("weir-batch");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Returns a 200 response with a JSON body.
pub(super) fn json(body: impl Into<Bytes>) -> Response<Body> {
    typed(JSON, Body::from(body.into()))
}

/// Returns a 200 response without a body: Triton's answer to a successful change.
pub(super) fn empty() -> Response<Body> {
    Response::new(Body::default())
}

/// Returns a 200 response with this body.
pub(super) fn typed(content_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Returns the error of a request that matches no call, in a form that its client can read: gRPC clients that came to
/// the wrong port cannot read JSON. gRPC-Web clients read the HTTP status, and would take the 200 of a gRPC error for a
/// success.
pub(super) fn of_caller(error: ServeError, headers: &HeaderMap) -> ServeError {
    if content_type::is_grpc(headers) { ServeError::GrpcAtHttpPort } else { error }
}

/// Turns an error into a response; no other function does.
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
        // One second, because a queue that refuses requests is a few batches deep, not minutes.
        Code::Overloaded | Code::OverLimit => {
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
        | Code::Unauthenticated
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

/// Adds headers with the cost of an inference and the server's capacity.
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
    fn a_wrong_method_is_answered_with_the_allowed_ones() {
        let response = error(&ServeError::MethodNotAllowed { allowed: "POST" });
        assert_eq!(response.status(), 405);
        assert_eq!(response.headers()["allow"], "POST");
    }

    #[test]
    fn a_grpc_call_is_sent_to_the_grpc_port_in_its_own_format() {
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
    fn only_refusals_before_any_work_have_the_refused_header() {
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
        let short = error(&ServeError::QueueTimeout { own });
        assert_eq!(short.headers()["weir-refused"], "3");
        for worked in [
            ServeError::QueueTimeout { own: None },
            ServeError::QueueTimeout { own: Some(Duration::from_secs(1)) },
            ServeError::TooLarge("x".to_owned()),
        ] {
            assert!(!error(&worked).headers().contains_key("weir-refused"));
        }
    }
}
