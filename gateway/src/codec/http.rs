//! HTTP's error bodies and status codes.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use weir_protocol::{Code, rest};

use crate::body::DownstreamBody;
use crate::queue::Verdict;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Returns a response with the body `{"error": "<sentence>"}`.
pub(crate) fn error(code: Code, sentence: &str) -> Response<DownstreamBody> {
    with_status(code, rest::error_body(sentence))
}

/// Returns a response with this failure code and JSON body.
pub(super) fn with_status(code: Code, body: bytes::Bytes) -> Response<DownstreamBody> {
    let mut response = json(body);
    *response.status_mut() = code.http();
    if code == Code::Overloaded {
        // One second: by then the queue has advanced, or more replicas are starting.
        let second = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, second);
    }
    response
}

/// Returns a 200 response with a JSON body.
pub(crate) fn json(body: bytes::Bytes) -> Response<DownstreamBody> {
    let mut response = Response::new(DownstreamBody::local(body));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// Returns the verdict on a response with this status and these headers.
pub(crate) fn verdict(status: StatusCode, headers: &HeaderMap) -> Verdict {
    if is_refusal(status, headers) { Verdict::Refused } else { super::counted(Code::of_http(status)) }
}

/// Returns true for a 503 response with `retry-after`.
pub(super) fn is_refusal(status: StatusCode, headers: &HeaderMap) -> bool {
    status == Code::Overloaded.http() && headers.contains_key(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_requests_and_full_servers_do_not_count_as_failures() {
        let none = HeaderMap::new();
        let mut again = HeaderMap::new();
        again.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        let counts = |status, headers| verdict(StatusCode::from_u16(status).unwrap(), headers);
        assert_eq!(counts(501, &none), Verdict::Succeeded);
        assert_eq!(counts(404, &none), Verdict::Succeeded);
        assert_eq!(counts(429, &none), Verdict::Refused);
        assert_eq!(counts(503, &again), Verdict::Refused);
        assert_eq!(counts(503, &none), Verdict::Failed);
        assert_eq!(counts(500, &again), Verdict::Failed);
    }
}
