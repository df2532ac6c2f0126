//! A request that can share a batch: what it asks, and what it has in common with others.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use weir_protocol::rest::{HEADER_LENGTH, parse_header_length};

use super::message::Infer;
use super::template::{Side, Template};
use crate::body::BufferedBody;
use crate::codec::grpc;
use crate::forward::ProxyRequest;
use crate::headers;
use crate::protocol::Protocol;
use crate::upstream::Chunks;

/// All that has to be equal in the requests of one batch, written one after the other: the call, the
/// headers, and the body but for ids, rows and sizes.
pub(crate) type Key = Arc<[u8]>;

/// What a request brings to a batch.
#[derive(Clone, Debug)]
pub(super) enum Part {
    V1(Template),
    V2(Template),
    Grpc(Infer),
}

/// The body of a batch, and the headers that describe it.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) chunks: Chunks,
    pub(super) header_length: Option<usize>,
}

/// The call that V2 over gRPC makes for one answer.
const MODEL_INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Headers in which the requests of one batch may differ. The batch has none of them: they are about one
/// request's way, time or packing, and mean nothing to a model.
const APART: [&str; 27] = [
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

/// Families of such headers.
const FAMILIES: [&str; 3] = ["x-b3-", "x-datadog-", "x-forwarded-"];

impl Part {
    /// What a request brings, if it can share a batch: what cannot be understood cannot, and the replica
    /// shall say why.
    pub(super) fn read(request: &ProxyRequest, buffered: &BufferedBody) -> Option<Self> {
        if !buffered.is_whole()
            || is_packed(&request.headers)
            || request.method != http::Method::POST
        {
            return None;
        }
        let path = request.path.path();
        match request.protocol {
            Protocol::Grpc if path == MODEL_INFER => {
                Infer::read(grpc::only_message(buffered.whole())?).map(Self::Grpc)
            }
            Protocol::Http if path.starts_with("/v1/models/") && path.ends_with(":predict") => {
                Template::v1(buffered.whole(), Side::Request).map(Self::V1)
            }
            Protocol::Http if path.starts_with("/v2/models/") && path.ends_with("/infer") => {
                let (text, blobs) = divided(buffered.whole(), &request.headers)?;
                let template = Template::v2(text, blobs, Side::Request);
                template.ok().map(Self::V2)
            }
            Protocol::Http | Protocol::Grpc => None,
        }
    }

    pub(super) fn rows(&self) -> usize {
        match self {
            Self::V1(template) | Self::V2(template) => template.rows,
            Self::Grpc(infer) => infer.rows,
        }
    }

    /// Its own id, as this wire writes it.
    pub(super) fn id(&self) -> Option<Bytes> {
        match self {
            Self::V1(_) => None,
            Self::V2(template) => template.id(),
            Self::Grpc(infer) => Some(infer.id())
                .filter(|id| !id.is_empty())
                .map(|id| Bytes::copy_from_slice(id.as_bytes())),
        }
    }

    pub(super) fn key(&self, request: &ProxyRequest) -> Key {
        let mut key = request.address().into_bytes();
        let shared = shared(&request.headers);
        let mut shared: Vec<_> = shared.iter().collect();
        shared.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
        for (name, value) in shared {
            // Neither of the two can hold a line break.
            key.push(b'\n');
            key.extend_from_slice(name.as_str().as_bytes());
            key.push(b':');
            key.extend_from_slice(value.as_bytes());
        }
        key.push(b'\n');
        key.extend(match self {
            Self::V1(template) | Self::V2(template) => template.likeness(),
            Self::Grpc(infer) => infer.likeness(),
        });
        key.into()
    }

    /// One body with the rows of all these, which have the same key.
    pub(super) fn merge(all: &[&Self]) -> Merged {
        match all.first() {
            Some(Self::Grpc(_)) => {
                let all: Vec<&Infer> = all.iter().filter_map(|part| part.infer()).collect();
                let message = grpc::framed(&Infer::merge(&all));
                Merged {
                    chunks: std::iter::once(message).collect(),
                    header_length: None,
                }
            }
            Some(Self::V1(_) | Self::V2(_)) | None => {
                let all: Vec<&Template> = all.iter().filter_map(|part| part.template()).collect();
                let pieces = Template::merge(&all);
                let header_length = (!pieces.blobs.is_empty()).then_some(pieces.json.len());
                let blobs = pieces.blobs.into_iter().filter(|blob| !blob.is_empty());
                Merged {
                    chunks: std::iter::once(pieces.json).chain(blobs).collect(),
                    header_length,
                }
            }
        }
    }

    fn template(&self) -> Option<&Template> {
        match self {
            Self::V1(template) | Self::V2(template) => Some(template),
            Self::Grpc(_) => None,
        }
    }

    fn infer(&self) -> Option<&Infer> {
        match self {
            Self::V1(_) | Self::V2(_) => None,
            Self::Grpc(infer) => Some(infer),
        }
    }
}

/// The headers of a batch: those that all its requests share.
pub(super) fn shared(all: &HeaderMap) -> HeaderMap {
    let is_apart = |name: &HeaderName| {
        let name = name.as_str();
        APART.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
    };
    let shared = all.iter().filter(|(name, _)| !is_apart(name));
    shared
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The headers of a batch with this body.
pub(super) fn headers_of(request: &ProxyRequest, merged: &Merged) -> HeaderMap {
    let mut headers = shared(&request.headers);
    if let Some(length) = merged.header_length {
        let name = HeaderName::from_static(HEADER_LENGTH);
        headers.insert(name, HeaderValue::from(length));
    }
    headers.insert(headers::REQUEST_ID, headers::new_request_id());
    headers
}

/// A body's JSON and what follows it. `None` for a header that does not say where the one ends.
pub(super) fn divided(mut body: Bytes, headers: &HeaderMap) -> Option<(Bytes, Bytes)> {
    let Some(value) = headers.get(HEADER_LENGTH) else {
        return Some((body, Bytes::new()));
    };
    let length = parse_header_length(value.to_str().ok()?, body.len()).ok()?;
    let text = body.split_to(length);
    Some((text, body))
}

/// Whether a body is packed, or is nothing that we know.
pub(super) fn is_packed(headers: &HeaderMap) -> bool {
    let encoding = headers::text(headers, &CONTENT_ENCODING).unwrap_or_default();
    let kind = headers::text(headers, &CONTENT_TYPE).unwrap_or_default();
    let is_other_grpc = kind.starts_with("application/grpc")
        && !matches!(kind, "application/grpc" | "application/grpc+proto");
    is_other_grpc || !matches!(encoding, "" | "identity")
}
