//! Plain HTTP.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use weir_protocol::{Code, rest};

use crate::answer::Answer;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// `{"error": "<sentence>"}`.
pub(crate) fn error(code: Code, sentence: &str) -> Response<Answer> {
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
pub(crate) fn json(body: bytes::Bytes) -> Response<Answer> {
    let mut response = Response::new(Answer::ours(body));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// 503 that asks to come again.
pub(super) fn is_refusal(status: StatusCode, headers: &HeaderMap) -> bool {
    status == Code::Overloaded.http() && headers.contains_key(RETRY_AFTER)
}
