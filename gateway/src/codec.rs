//! Encodes errors and results for HTTP and for gRPC. The two submodules contain the differences.

pub(crate) mod grpc;
pub(crate) mod http;
mod openai;

use ::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::{HeaderMap, HeaderValue, Response, StatusCode};
use weir_protocol::{Blame, Code, Coded};
use weir_serve::header_names;

use crate::body::DownstreamBody;
use crate::error::{GatewayError, Refusal};
use crate::queue::{Outcome, Verdict};
use crate::wire::headers;
use crate::wire::protocol::Protocol;

/// Form of the error that the client of a request reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// `{"error": "…"}`, the form of V1 and V2.
    Plain,
    /// `{"error": {"message": "…", …}}`, the form of OpenAI's API.
    OpenAi,
    Grpc,
}

impl ErrorForm {
    /// Returns the form for a request with this path, which may have a prefix that leads to a service.
    pub(crate) fn of(protocol: Protocol, path: &str) -> Self {
        const ENDS: [&str; 6] =
            ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models", "/v1/rerank", "/v1/responses"];
        match protocol {
            Protocol::Grpc => Self::Grpc,
            Protocol::Http if path.contains("/openai/v1/") => Self::OpenAi,
            Protocol::Http if ENDS.iter().any(|end| path.ends_with(end)) => Self::OpenAi,
            Protocol::Http => Self::Plain,
        }
    }
}

/// Encodes an error as a response of this form.
pub(crate) fn error(form: ErrorForm, error: &GatewayError) -> Response<DownstreamBody> {
    let mut response = match form {
        ErrorForm::Plain => http::error(error.code(), &error.to_string()),
        ErrorForm::OpenAi => openai::error(error),
        ErrorForm::Grpc => grpc::error(error.code(), &error.to_string()),
    };
    if let GatewayError::OverLimit { after, .. } = error {
        let seconds = HeaderValue::from(after.as_secs_f32().ceil().max(1.0) as u32);
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    if let GatewayError::NotOwner(_) | GatewayError::FormerGateway | GatewayError::OtherState = error {
        let yes = HeaderValue::from_static("1");
        response.headers_mut().insert(headers::UNSERVED, yes);
    }
    if let GatewayError::UnknownEncoding(_) = error {
        let name = headers::GRPC_ACCEPT_ENCODING;
        response.headers_mut().insert(name, grpc::ENCODINGS);
    }
    if let (GatewayError::Refused(refused), ErrorForm::Plain | ErrorForm::OpenAi) = (error, form) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge(refused.refusal));
    }
    if let GatewayError::MethodNotAllowed { allowed } = error {
        let allowed = HeaderValue::from_static(allowed);
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

/// Returns the header of a 401 or 403 response, which says how to authenticate (RFC 6750, 3). It names no scope, because
/// that would depend on the services that exist.
fn challenge(refusal: Refusal) -> HeaderValue {
    HeaderValue::from_static(match refusal {
        Refusal::NoCredential => "Bearer",
        Refusal::InvalidCredential | Refusal::SeveralCredentials => "Bearer error=\"invalid_token\"",
        Refusal::Forbidden => "Bearer error=\"insufficient_scope\"",
    })
}

/// Returns the verdict on a response. `Open` means that the trailers decide.
pub(crate) fn verdict(protocol: Protocol, response: &Response<impl Sized>) -> Verdict {
    if let Some(mark) = header_names::first(response.headers(), &headers::REFUSED) {
        return verdict_of_refusal(mark);
    }
    match protocol {
        Protocol::Http => http::verdict(response.status(), response.headers()),
        Protocol::Grpc => match grpc::status(response.headers()) {
            Some(status) => grpc::verdict(status),
            // HTTP/2 itself refused the call, before gRPC could read it, because the client's headers were too large.
            None if response.status() == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Verdict::Succeeded,
            // The status will be in the trailers.
            None => Verdict::Open,
        },
    }
}

/// Returns the verdict on a request that a replica refused with this value of `weir-refused`. `3` means that the
/// client's own deadline was too short.
pub(crate) fn verdict_of_refusal(mark: &HeaderValue) -> Verdict {
    if mark == "3" { Verdict::Uncounted } else { Verdict::Refused }
}

/// Returns the failure code of a response, as far as the response head determines it; `None` for a success, or for a
/// code that the protocol does not have.
pub(crate) fn code(protocol: Protocol, response: &Response<impl Sized>) -> Option<Code> {
    match protocol {
        Protocol::Http => Code::of_http(response.status()),
        Protocol::Grpc => grpc::status(response.headers()).and_then(Code::of_grpc),
    }
}

/// Returns the verdict on a failure code. The caller's mistakes do not count as failures of the revision.
fn counted(code: Option<Code>) -> Verdict {
    match code.map(Code::blame) {
        None | Some(Blame::Caller) => Verdict::Succeeded,
        Some(Blame::Load) => Verdict::Refused,
        Some(Blame::Server) => Verdict::Failed,
    }
}

/// Returns the outcome of an attempt that the replica refused before it worked on the request, so that the request may
/// be retried; `None` for other responses. `weir-runtime` marks refusals with the header `weir-refused`, whose value is
/// 2 if all its instances are stuck. For other servers, HTTP's 503 with `retry-after` counts as a refusal. gRPC's
/// `RESOURCE_EXHAUSTED` does not, because it also stands for a message that is too large and for work that ran out of
/// memory.
pub(crate) fn refusal(protocol: Protocol, response: &Response<impl Sized>) -> Option<Outcome> {
    let mark = header_names::first(response.headers(), &headers::REFUSED);
    match (mark.map(HeaderValue::as_bytes), protocol) {
        (Some(b"1"), Protocol::Http | Protocol::Grpc) => Some(Outcome::Refused),
        (Some(b"2"), Protocol::Http | Protocol::Grpc) => Some(Outcome::Stuck),
        (None, Protocol::Http) if http::is_refusal(response.status(), response.headers()) => Some(Outcome::Refused),
        (Some(_) | None, Protocol::Http | Protocol::Grpc) => None,
    }
}

/// Returns true if the response is the refusal of a gateway that does not own the revision's queue, or does not know the
/// revision.
pub(crate) fn is_unserved(headers: &HeaderMap) -> bool {
    headers.contains_key(headers::UNSERVED)
}
