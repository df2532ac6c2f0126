//! Plain HTTP.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use weir_protocol::{Code, rest};

use crate::forward::DownstreamBody;
use crate::queue::Verdict;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// `{"error": "<sentence>"}`.
pub(crate) fn error(code: Code, sentence: &str) -> Response<DownstreamBody> {
    let mut response = json(rest::error_body(sentence));
    *response.status_mut() = code.http();
    if code == Code::Overloaded {
        // One second: by then a full queue has moved, or more replicas are on their way.
        let second = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, second);
    }
    response
}

/// 200 with a JSON body.
pub(crate) fn json(body: bytes::Bytes) -> Response<DownstreamBody> {
    let mut response = Response::new(DownstreamBody::local(body));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// What an answer with this head counts as.
pub(crate) fn verdict(status: StatusCode, headers: &HeaderMap) -> Verdict {
    match is_refusal(status, headers) {
        true => Verdict::Refused,
        false => super::counted(Code::of_http(status)),
    }
}

/// 503 that asks to come again.
pub(super) fn is_refusal(status: StatusCode, headers: &HeaderMap) -> bool {
    status == Code::Overloaded.http() && headers.contains_key(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_serve_what_is_asked_or_has_no_room_has_not_failed() {
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
