//! Inference calls: V2 `infer`, Triton's `generate` and V1 `:predict`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use weir_protocol::rest::{self, Limits, RestError};
use weir_protocol::{InferRequest, InferResponse, Input, Source, TensorSpec};
use weir_serve::byte_budget::BudgetPermit;

use super::body::Body;
use super::route::Target;
use super::{Http, HttpResult, LARGE, Received, respond, text};
use crate::engine::{Cost, Engine, Inferred};
use crate::error::ServeError;
use crate::incoming::charged_bytes;
use crate::incoming::off_reactor;
use crate::incoming::request::forward_headers;

/// A call whose body has no datatypes and shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UntypedCall {
    Generate,
    /// The response is a server-sent event.
    GenerateStream,
    Predict,
}

const HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");
const TIMEOUT: &str = "weir-timeout";
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

impl Http {
    pub(super) async fn infer(&self, target: &Target<'_>, received: Received) -> HttpResult {
        let loaded = self.server.find(&target.model, target.version)?;
        let deadline = deadline(&received)?;
        let Received { headers, body, permit, .. } = received;
        let response_permit = Arc::clone(&permit);
        let body = CountedBody { bytes: body, permit };
        let decoded = self.decode(&loaded.engine, target, &headers, body);
        let mut request = decoded.await?;
        forward_headers(&mut request.parameters, &headers, self.options.forward.as_ref())?;
        // A queued request holds as little as possible, because hundreds of them have to fit in the processor's caches.
        drop(headers);
        let inferred = self.server.infer(&loaded.engine, request, deadline).await?;
        reserve_json(&response_permit, &inferred.response)?;
        let encoded = if output_bytes(&inferred) > LARGE {
            let response = inferred.response;
            off_reactor(move || rest::encode_response(&response)).await?
        } else {
            rest::encode_response(&inferred.response)
        };
        let encoded = encoded.map_err(ServeError::codec)?;
        let mut body = Body::from(encoded.json);
        encoded.blobs.into_iter().for_each(|blob| body.push(blob));
        let content_type = if encoded.header_length.is_some() { OCTETS } else { JSON };
        let mut response = respond::typed(content_type, body);
        if let Some(length) = encoded.header_length {
            response.headers_mut().insert(HEADER_LENGTH, HeaderValue::from(length));
        }
        respond::add_cost(&mut response, &inferred.cost, self.server.capacity());
        Ok(response)
    }

    async fn decode(
        &self,
        engine: &Arc<Engine>,
        target: &Target<'_>,
        headers: &HeaderMap,
        body: CountedBody,
    ) -> Result<InferRequest, ServeError> {
        let CountedBody { bytes: body, permit } = body;
        let (model, version) = (target.model.as_ref(), target.version);
        let header_length = match headers.get(HEADER_LENGTH) {
            None => None,
            Some(value) => {
                let value = String::from_utf8_lossy(value.as_bytes());
                let length = rest::parse_header_length(&value, body.len());
                Some(length.map_err(ServeError::codec)?)
            }
        };
        let limits = self.limits();
        let (size, json) = (body.len(), header_length.unwrap_or(body.len()));
        reserve(&permit, size, json)?;
        let decoded = if header_length == Some(0) {
            let (inputs, batching) = (inputs(engine), engine.interface().batching());
            rest::decode_raw(&rest::TargetModel { model, version, inputs: &inputs, batching }, body, &limits)
        } else if json > LARGE {
            let (model, version) = (model.to_owned(), version.to_owned());
            off_reactor(move || rest::decode_request(&model, &version, body, header_length, &limits)).await?
        } else {
            rest::decode_request(model, version, body, header_length, &limits)
        };
        let request = decoded.map_err(ServeError::codec)?;
        permit.resize(size + decoded_bytes(&request, size - json))?;
        Ok(request)
    }

    /// Decodes a body without datatypes and shapes; a large one off the reactor.
    async fn decode_untyped(
        &self,
        engine: &Engine,
        target: &Target<'_>,
        body: CountedBody,
        decode: Decode,
    ) -> Result<InferRequest, ServeError> {
        let CountedBody { bytes: body, permit } = body;
        let (size, limits) = (body.len(), self.limits());
        reserve(&permit, size, size)?;
        let (model, version) = (target.model.clone().into_owned(), target.version.to_owned());
        let (inputs, batching) = (inputs(engine), engine.interface().batching());
        let work = move || {
            let target = rest::TargetModel { model: &model, version: &version, inputs: &inputs, batching };
            decode(&target, &body, &limits)
        };
        let decoded = if size > LARGE { off_reactor(work).await? } else { work() };
        let request = decoded.map_err(ServeError::codec)?;
        permit.resize(size + decoded_bytes(&request, 0))?;
        Ok(request)
    }

    fn limits(&self) -> Limits {
        Limits { max_json: self.options.max_input, ..Limits::DEFAULT }
    }

    /// Answers a call whose body has no datatypes and shapes.
    pub(super) async fn infer_untyped(&self, target: &Target<'_>, received: Received, call: UntypedCall) -> HttpResult {
        let (decode, encode) = call.codec();
        let loaded = self.server.find(&target.model, target.version)?;
        let deadline = deadline(&received)?;
        let response_permit = Arc::clone(&received.permit);
        let body = CountedBody { bytes: received.body, permit: received.permit };
        let mut request = self.decode_untyped(&loaded.engine, target, body, decode).await?;
        forward_headers(&mut request.parameters, &received.headers, self.options.forward.as_ref())?;
        let inferred = self.server.infer(&loaded.engine, request, deadline).await?;
        reserve_json(&response_permit, &inferred.response)?;
        let (json, cost) = encode_json(inferred, encode).await?;
        let mut response = match call {
            UntypedCall::Generate | UntypedCall::Predict => respond::json(json),
            UntypedCall::GenerateStream => respond::typed(EVENTS, rest::event(&json).into()),
        };
        respond::add_cost(&mut response, &cost, self.server.capacity());
        Ok(response)
    }
}

impl UntypedCall {
    fn codec(self) -> (Decode, Encode) {
        match self {
            Self::Generate | Self::GenerateStream => (rest::decode_generate, rest::encode_generate),
            Self::Predict => (rest::decode_predict, rest::encode_predict),
        }
    }
}

/// A body, and the permit that counts its bytes and everything decoded from it.
struct CountedBody {
    bytes: Bytes,
    permit: Arc<BudgetPermit>,
}

/// A decoder of bodies without datatypes and shapes.
type Decode = fn(&rest::TargetModel<'_>, &[u8], &Limits) -> Result<InferRequest, RestError>;

/// An encoder of responses as JSON.
type Encode = fn(&InferResponse) -> Result<Bytes, RestError>;

/// Largest number of bytes that one byte of JSON is decoded to: `[0,0]` needs two bytes for an element of eight.
const DECODED: usize = 4;

/// Counts the most that large JSON can be decoded to before it is decoded, because many requests are decoded at once.
fn reserve(permit: &BudgetPermit, body: usize, json: usize) -> Result<(), ServeError> {
    if json > LARGE {
        permit.resize(body.saturating_add(json.saturating_mul(DECODED)))?;
    }
    Ok(())
}

/// Counts the most that a large response can become as JSON before it is encoded, in place of the request's bytes,
/// because many responses are encoded at once.
fn reserve_json(permit: &BudgetPermit, response: &InferResponse) -> Result<(), ServeError> {
    let most = rest::most_json_bytes(response);
    if most > LARGE {
        charged_bytes::count(permit, most)?;
    }
    Ok(())
}

/// Returns the bytes of tensors that were decoded from JSON; `binary` bytes of the request's tensors came as binary
/// data.
fn decoded_bytes(request: &InferRequest, binary: usize) -> usize {
    let inline = |input: &Input| match &input.source {
        Source::Inline(data) => data.len(),
        Source::Shared(_) => 0,
    };
    let all: usize = request.inputs.iter().map(inline).sum();
    all.saturating_sub(binary)
}

/// Encodes a response as JSON; a large one off the reactor.
async fn encode_json(inferred: Inferred, encode: Encode) -> Result<(Bytes, Cost), ServeError> {
    let (is_large, response) = (output_bytes(&inferred) > LARGE, inferred.response);
    let encoded = if is_large { off_reactor(move || encode(&response)).await? } else { encode(&response) };
    let json = encoded.map_err(ServeError::codec)?;
    Ok((json, inferred.cost))
}

/// Returns the client's deadline, from the header `weir-timeout` in milliseconds.
fn deadline(received: &Received) -> Result<Option<Instant>, ServeError> {
    Ok(match received.headers.get(TIMEOUT) {
        None => None,
        Some(_) => {
            let ms = text(&received.headers, TIMEOUT).and_then(|value| value.parse().ok());
            let ms =
                ms.ok_or_else(|| ServeError::Invalid(format!("header '{TIMEOUT}' must be a number of milliseconds")))?;
            received.at.checked_add(Duration::from_millis(ms))
        }
    })
}

fn inputs(engine: &Engine) -> Vec<TensorSpec> {
    let signature = &engine.interface().signature;
    signature.inputs.iter().map(|input| input.spec(signature.max_batch_size)).collect()
}

fn output_bytes(inferred: &Inferred) -> usize {
    inferred.response.outputs.iter().map(|(tensor, _)| tensor.data().len()).sum()
}
