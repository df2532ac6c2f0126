//! V2 over gRPC: encodes and decodes the calls of [`Server`].

mod budgeted_body;
mod calls;
pub(in crate::api) mod content_type;
mod health;
mod listen;
mod malformed;
mod middleware;
mod service;
mod stream;
mod timed_body;
mod unary;
mod whole_messages;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use regex::Regex;
use tonic::metadata::MetadataValue;
use tonic::{Response, Status};
use weir_protocol::InferRequest;
use weir_protocol::grpc as codec;
use weir_protocol::grpc::proto;
use weir_protocol::grpc::timeout::parse_timeout;
use weir_serve::byte_budget::ByteBudget;

use crate::api::serving_headers;
use crate::engine::Inferred;
use crate::error::ServeError;
use crate::incoming::request::forward_headers;
use crate::incoming::restriction::{ControlRoutes, Restriction};
use crate::launch::InUse;
use crate::server::Server;
use crate::tls::RequestTls;

pub(crate) use listen::{GrpcListenOptions, serve};

/// Settings of the gRPC interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrpcOptions {
    /// Pattern of the metadata that becomes request parameters; `None` means that none does.
    pub forward: Option<Regex>,
    /// Time that open streams have after the port has closed; then each ends between two messages.
    pub stream_grace: Duration,
    /// Memory for messages, from the arrival of the request until its response is sent.
    pub body_budget: ByteBudget,
    /// Permission for the calls that control the server.
    pub control: ControlRoutes,
    /// Groups of calls that require a header.
    pub restricted: Vec<Restriction>,
    /// TLS of the port; `None` serves plainly.
    pub tls: Option<Arc<RequestTls>>,
}

/// The gRPC interface of a server.
#[derive(Clone)]
pub(crate) struct Grpc {
    server: Arc<Server>,
    options: Arc<GrpcOptions>,
}

impl Grpc {
    /// Creates an interface to `server`.
    #[must_use]
    pub(crate) fn new(server: Arc<Server>, options: GrpcOptions) -> Self {
        Self { server, options: Arc::new(options) }
    }

    async fn infer(
        &self,
        request: proto::ModelInferRequest,
        metadata: &HeaderMap,
        deadline: Option<Instant>,
    ) -> Result<(Inferred, usize), ServeError> {
        let (loaded, request) = self.decode(request, metadata)?;
        let inferred = self.server.infer(&loaded.engine, request, deadline).await?;
        Ok((inferred, self.server.capacity()))
    }

    /// Decodes the request of a message, and finds the model version that it names.
    fn decode(
        &self,
        request: proto::ModelInferRequest,
        metadata: &HeaderMap,
    ) -> Result<(InUse, InferRequest), ServeError> {
        let loaded = self.find(&request.model_name, &request.model_version)?;
        let mut request = codec::decode_request(request).map_err(ServeError::codec)?;
        forward_headers(&mut request.parameters, metadata, self.options.forward.as_ref())?;
        Ok((loaded, request))
    }

    /// Finds the ready version that a message names.
    fn find(&self, model: &str, version: &str) -> Result<InUse, ServeError> {
        let version = decode_version(version)?;
        self.server.find(model, &version)
    }
}

fn decode_version(version: &str) -> Result<String, ServeError> {
    codec::decode_version(version).map_err(ServeError::codec)
}

/// Returns the client's deadline, the earlier of `grpc-timeout` and `weir-timeout`.
fn deadline(metadata: &HeaderMap) -> Result<Option<Instant>, ServeError> {
    let received = now();
    let timeout = grpc_timeout(metadata)?;
    let ours = match metadata.get("weir-timeout") {
        None => None,
        Some(value) => {
            let ms = value.to_str().ok().and_then(|value| value.parse().ok());
            Some(Duration::from_millis(ms.ok_or_else(|| {
                ServeError::Invalid("metadata 'weir-timeout' must be a number of milliseconds".into())
            })?))
        }
    };
    let earliest = timeout.into_iter().chain(ours).min();
    Ok(earliest.and_then(|after| received.checked_add(after)))
}

/// Parses the client's `grpc-timeout`.
///
/// # Errors
/// [`ServeError::Invalid`] for a malformed value: a client that set a deadline should not wait without one.
fn grpc_timeout(metadata: &HeaderMap) -> Result<Option<Duration>, ServeError> {
    let Some(value) = metadata.get("grpc-timeout") else {
        return Ok(None);
    };
    // `?` is not a valid timeout, so a value that is not text is refused too.
    let text = value.to_str().unwrap_or("?");
    let timeout = parse_timeout(text).map_err(|_| {
        ServeError::Invalid(format!("header grpc-timeout: {text:?} is not up to eight digits and a unit"))
    });
    timeout.map(Some)
}

/// Turns an error into a status; no other function does.
fn status(error: &ServeError) -> Status {
    let mut status = codec::status(error);
    if let Some(refused) = error.refusal() {
        let label = MetadataValue::from_static(refused.label());
        status.metadata_mut().insert(serving_headers::REFUSED, label);
    }
    status
}

/// Returns a response with the request's cost in its trailing metadata.
fn respond((inferred, capacity): (Inferred, usize)) -> Response<proto::ModelInferResponse> {
    let trailers = middleware::Trailers::of(&inferred.cost, capacity);
    let mut response = Response::new(codec::encode_response(inferred.response));
    response.extensions_mut().insert(trailers);
    response
}

#[expect(clippy::disallowed_methods, reason = "the deadline of a request counts from its arrival")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_timeout_is_refused() {
        let of = |text| {
            let value = http::HeaderValue::from_static(text);
            grpc_timeout(&HeaderMap::from_iter([(http::HeaderName::from_static("grpc-timeout"), value)]))
        };
        assert_eq!(grpc_timeout(&HeaderMap::new()), Ok(None));
        assert_eq!(of("250m"), Ok(Some(Duration::from_millis(250))));
        for bad in ["", "5x", "-1m", "123456789m", "1"] {
            let code = weir_protocol::Coded::code(&of(bad).unwrap_err());
            assert_eq!(code, weir_protocol::Code::InvalidArgument, "{bad:?}");
        }
    }

    #[test]
    fn only_refusals_before_any_work_have_the_refused_metadata() {
        let headers = |error: &ServeError| {
            let response: http::Response<tonic::body::Body> = status(error).into_http();
            response.into_parts().0.headers
        };
        let full = headers(&ServeError::QueueFull);
        assert_eq!((&full["grpc-status"], &full["weir-refused"]), (&"8".parse().unwrap(), &"1".parse().unwrap()));
        let large = headers(&ServeError::TooLarge("x".to_owned()));
        assert_eq!(large["grpc-status"], "8");
        assert!(!large.contains_key("weir-refused"));
    }
}
