//! A parsed request that can share a batch, and its batch key.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use weir_protocol::rest::{HEADER_LENGTH, parse_header_length};

use super::message::GrpcRequest;
use super::template::{BodyKind, Template};
use crate::body::BufferedBody;
use crate::codec::grpc;
use crate::pipeline::forward::ProxyRequest;
use crate::upstream::Chunks;
use crate::wire::headers;
use crate::wire::protocol::Protocol;

/// Concatenation of everything that must be equal in the requests of one batch: the address, the headers, and the body
/// without ids, rows and sizes.
pub(crate) type BatchKey = Arc<[u8]>;

/// The parsed body of a request that can share a batch.
#[derive(Clone, Debug)]
pub(super) enum ParsedRequest {
    V1(Template),
    V2(Template),
    Grpc(GrpcRequest),
}

/// The body of a batch, and the length of its JSON if binary data follows it.
#[derive(Debug)]
pub(super) struct MergedBody {
    pub(super) chunks: Chunks,
    pub(super) header_length: Option<usize>,
}

/// V2's unary inference call over gRPC.
const MODEL_INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Headers in which the requests of one batch may differ. They are dropped from the batch, because they concern the
/// tracing, timing, routing or encoding of one request and not the model.
const PER_REQUEST_HEADERS: [&str; 27] = [
    "accept-encoding",
    "b3",
    "baggage",
    "content-length",
    "date",
    "forwarded",
    "grpc-accept-encoding",
    "grpc-timeout",
    "grpc-trace-bin",
    "inference-header-content-length",
    "traceparent",
    "tracestate",
    "uber-trace-id",
    "user-agent",
    "via",
    "weir-hop",
    "weir-revision",
    "weir-tag",
    "weir-timeout",
    "weir-waited-us",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-envoy-attempt-count",
    "x-envoy-expected-rq-timeout-ms",
    "x-real-ip",
    "x-request-id",
];

/// Prefixes of headers that are dropped for the same reason.
const PER_REQUEST_PREFIXES: [&str; 3] = ["x-b3-", "x-datadog-", "x-forwarded-"];

impl ParsedRequest {
    /// Parses a request; `None` if it cannot share a batch. A malformed request is forwarded alone, so that the replica
    /// answers it.
    pub(super) fn read(request: &ProxyRequest, buffered: &BufferedBody) -> Option<Self> {
        if !buffered.is_whole() || is_encoded(&request.headers) || request.method != http::Method::POST {
            return None;
        }
        let path = request.path.path();
        match request.protocol {
            Protocol::Grpc if path == MODEL_INFER => {
                let message = grpc::only_message(buffered.charged_whole()?)?;
                let has_room = buffered.charge(GrpcRequest::decoded_bytes(&message)?);
                has_room.then(|| GrpcRequest::read(message))?.map(Self::Grpc)
            }
            Protocol::Http if path.starts_with("/v1/models/") && path.ends_with(":predict") => {
                Template::v1(buffered.charged_whole()?, BodyKind::Request).map(Self::V1)
            }
            Protocol::Http if path.starts_with("/v2/models/") && path.ends_with("/infer") => {
                let (text, blobs) = split_json(buffered.charged_whole()?, &request.headers)?;
                let template = Template::v2(text, blobs, BodyKind::Request);
                template.ok().map(Self::V2)
            }
            Protocol::Http | Protocol::Grpc => None,
        }
    }

    pub(super) fn rows(&self) -> usize {
        match self {
            Self::V1(template) | Self::V2(template) => template.rows,
            Self::Grpc(grpc_request) => grpc_request.rows,
        }
    }

    /// Returns the request's id as encoded in its body.
    pub(super) fn id(&self) -> Option<Bytes> {
        match self {
            Self::V1(_) => None,
            Self::V2(template) => template.id(),
            Self::Grpc(grpc_request) => {
                Some(grpc_request.id()).filter(|id| !id.is_empty()).map(|id| Bytes::copy_from_slice(id.as_bytes()))
            }
        }
    }

    pub(super) fn key(&self, request: &ProxyRequest) -> BatchKey {
        let mut key = request.address().into_bytes();
        let shared = shared_headers(&request.headers);
        let mut shared: Vec<_> = shared.iter().collect();
        shared.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
        for (name, value) in shared {
            // Names and values cannot contain a line break.
            key.push(b'\n');
            key.extend_from_slice(name.as_str().as_bytes());
            key.push(b':');
            key.extend_from_slice(value.as_bytes());
        }
        key.push(b'\n');
        key.extend(match self {
            Self::V1(template) | Self::V2(template) => template.batch_key(),
            Self::Grpc(grpc_request) => grpc_request.batch_key(),
        });
        key.into()
    }

    /// Merges requests with equal keys into one body with the rows of all.
    pub(super) fn merge(all: &[&Self]) -> MergedBody {
        match all.first() {
            Some(Self::Grpc(_)) => {
                let all: Vec<&GrpcRequest> = all.iter().filter_map(|parsed| parsed.grpc_request()).collect();
                let message = grpc::framed(&GrpcRequest::merge(&all));
                MergedBody { chunks: std::iter::once(message).collect(), header_length: None }
            }
            Some(Self::V1(_) | Self::V2(_)) | None => {
                let all: Vec<&Template> = all.iter().filter_map(|parsed| parsed.template()).collect();
                let body = Template::merge(&all);
                let header_length = (!body.blobs.is_empty()).then_some(body.json.len());
                let blobs = body.blobs.into_iter().filter(|blob| !blob.is_empty());
                MergedBody { chunks: std::iter::once(body.json).chain(blobs).collect(), header_length }
            }
        }
    }

    fn template(&self) -> Option<&Template> {
        match self {
            Self::V1(template) | Self::V2(template) => Some(template),
            Self::Grpc(_) => None,
        }
    }

    fn grpc_request(&self) -> Option<&GrpcRequest> {
        match self {
            Self::V1(_) | Self::V2(_) => None,
            Self::Grpc(grpc_request) => Some(grpc_request),
        }
    }
}

/// Returns the headers that are equal in all requests of a batch.
pub(super) fn shared_headers(all: &HeaderMap) -> HeaderMap {
    let is_per_request = |name: &HeaderName| {
        let name = name.as_str();
        PER_REQUEST_HEADERS.contains(&name) || PER_REQUEST_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let shared = all.iter().filter(|(name, _)| !is_per_request(name));
    shared.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the headers of a batch.
pub(super) fn batch_headers(request: &ProxyRequest, merged: &MergedBody) -> HeaderMap {
    let mut headers = shared_headers(&request.headers);
    if let Some(length) = merged.header_length {
        let name = HeaderName::from_static(HEADER_LENGTH);
        headers.insert(name, HeaderValue::from(length));
    }
    headers.insert(headers::REQUEST_ID, headers::new_request_id());
    headers
}

/// Returns a body's JSON and the binary data after it; `None` if the header with the JSON's length is invalid.
pub(super) fn split_json(mut body: Bytes, headers: &HeaderMap) -> Option<(Bytes, Bytes)> {
    let Some(value) = headers.get(HEADER_LENGTH) else {
        return Some((body, Bytes::new()));
    };
    let length = parse_header_length(value.to_str().ok()?, body.len()).ok()?;
    let text = body.split_to(length);
    Some((text, body))
}

/// Returns true if a body is compressed or in an unknown encoding.
pub(super) fn is_encoded(headers: &HeaderMap) -> bool {
    let encoding = headers::text(headers, &CONTENT_ENCODING).unwrap_or_default();
    let kind = headers::text(headers, &CONTENT_TYPE).unwrap_or_default();
    let is_other_grpc =
        kind.starts_with("application/grpc") && !matches!(kind, "application/grpc" | "application/grpc+proto");
    is_other_grpc || !matches!(encoding, "" | "identity")
}
