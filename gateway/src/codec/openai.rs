//! Errors in the form of OpenAI's API, which its clients read.

use ::http::Response;
use serde_json::json;
use weir_access::Unit;
use weir_protocol::{Blame, Code, Coded, shortened};

use super::http;
use crate::body::DownstreamBody;
use crate::error::{ClientLimit, GatewayError};

/// Longest message of an error, in bytes.
const MAX_MESSAGE: usize = 4096;

/// Returns a response with the body `{"error": {"message", "type", "param", "code"}}`. The code is OpenAI's for an
/// unknown model and for a client above its limits, and otherwise the word for the error in logs.
pub(super) fn error(error: &GatewayError) -> Response<DownstreamBody> {
    let code = error.code();
    let message = error.to_string();
    let (param, name) = match error {
        GatewayError::NoRoute { .. } => (Some("model"), "model_not_found"),
        GatewayError::Refused(_) if code == Code::Unauthenticated => (None, "invalid_api_key"),
        GatewayError::OverLimit { .. } => (None, "rate_limit_exceeded"),
        _ => (None, code.label()),
    };
    let body = json!({
        "error": { "message": shortened(&message, MAX_MESSAGE), "type": kind(error), "param": param, "code": name }
    });
    http::with_status(code, body.to_string().into())
}

/// Returns OpenAI's type of an error.
fn kind(error: &GatewayError) -> &'static str {
    if let GatewayError::OverLimit { limit, .. } = error {
        return if *limit == ClientLimit::Rate(Unit::Tokens) { "tokens" } else { "requests" };
    }
    match error.code().blame() {
        Blame::Caller => "invalid_request_error",
        Blame::Load | Blame::Server => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_model_and_a_full_queue_have_openais_types() {
        let unknown = GatewayError::NoRoute { asked: "model \"x\"".to_owned(), known: "none".to_owned() };
        assert_eq!((error(&unknown).status().as_u16(), kind(&unknown)), (404, "invalid_request_error"));
        let full = GatewayError::Gone("r".to_owned());
        assert_eq!((error(&full).status().as_u16(), kind(&full)), (503, "server_error"));
    }
}
