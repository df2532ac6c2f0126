//! Inference: V2 `infer`, Triton's `generate`, V1 `:predict`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use weir_protocol::rest::{self, Limits};
use weir_protocol::{InferRequest, TensorSpec};

use super::body::Body;
use super::route::Target;
use super::{Http, HttpResult, LARGE, Received, off_reactor, respond, text};
use crate::engine::{Engine, Inferred};
use crate::error::ServeError;

/// The framing of a generated response: one JSON document, or server-sent events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Plain,
    Events,
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
        let Received { headers, body, .. } = received;
        let decoded = self.decode(&loaded.engine, target, &headers, body);
        let mut request = decoded.await?;
        self.forward_headers(&mut request, &headers)?;
        // While it waits, a request holds no more than it needs: hundreds of them have to fit in the processor's caches.
        drop(headers);
        let inferred = self.server.infer(&loaded.engine, request, deadline).await?;
        let encoded = if output_bytes(&inferred) > LARGE {
            let response = inferred.response;
            off_reactor(move || rest::encode_response(&response)).await?
        } else {
            rest::encode_response(&inferred.response)
        };
        let encoded = encoded.map_err(|error| ServeError::codec(&error))?;
        let mut body = Body::from(encoded.json);
        encoded.blobs.into_iter().for_each(|blob| body.push(blob));
        let content_type = if encoded.header_length.is_some() {
            OCTETS
        } else {
            JSON
        };
        let mut response = respond::typed(content_type, body);
        if let Some(length) = encoded.header_length {
            response
                .headers_mut()
                .insert(HEADER_LENGTH, HeaderValue::from(length));
        }
        respond::add_cost(&mut response, &inferred.cost, self.server.capacity());
        Ok(response)
    }

    async fn decode(
        &self,
        engine: &Arc<Engine>,
        target: &Target<'_>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<InferRequest, ServeError> {
        let (model, version) = (target.model.as_ref(), target.version);
        let header_length = match headers.get(HEADER_LENGTH) {
            None => None,
            Some(value) => {
                let value = String::from_utf8_lossy(value.as_bytes());
                let length = rest::parse_header_length(&value, body.len());
                Some(length.map_err(|error| ServeError::codec(&error))?)
            }
        };
        let limits = self.limits();
        let decoded = if header_length == Some(0) {
            let inputs = inputs(engine);
            rest::decode_raw(&rest_target(engine, target, &inputs), body, &limits)
        } else if header_length.unwrap_or(body.len()) > LARGE {
            let (model, version) = (model.to_owned(), version.to_owned());
            off_reactor(move || {
                rest::decode_request(&model, &version, body, header_length, &limits)
            })
            .await?
        } else {
            rest::decode_request(model, version, body, header_length, &limits)
        };
        decoded.map_err(|error| ServeError::codec(&error))
    }

    fn limits(&self) -> Limits {
        Limits {
            max_json: self.options.max_input,
            ..Limits::DEFAULT
        }
    }

    /// Request headers that `--http-header-forward-pattern` names become parameters.
    fn forward_headers(
        &self,
        request: &mut InferRequest,
        headers: &HeaderMap,
    ) -> Result<(), ServeError> {
        let Some(pattern) = &self.options.forward else {
            return Ok(());
        };
        for (name, value) in headers {
            if !pattern.is_match(name.as_str()) {
                continue;
            }
            let Ok(value) = value.to_str() else { continue };
            crate::request::forward(&mut request.parameters, name.as_str(), value)?;
        }
        Ok(())
    }

    pub(super) async fn generate(
        &self,
        target: &Target<'_>,
        received: Received,
        framing: Framing,
    ) -> HttpResult {
        let loaded = self.server.find(&target.model, target.version)?;
        let deadline = deadline(&received)?;
        let specs = inputs(&loaded.engine);
        let target = rest_target(&loaded.engine, target, &specs);
        let mut request = rest::decode_generate(&target, &received.body, &self.limits())
            .map_err(|error| ServeError::codec(&error))?;
        self.forward_headers(&mut request, &received.headers)?;
        let inferred = self.server.infer(&loaded.engine, request, deadline).await?;
        let json =
            rest::encode_generate(&inferred.response).map_err(|error| ServeError::codec(&error))?;
        let mut response = match framing {
            Framing::Plain => respond::json(json),
            Framing::Events => respond::typed(EVENTS, rest::event(&json).into()),
        };
        respond::add_cost(&mut response, &inferred.cost, self.server.capacity());
        Ok(response)
    }

    pub(super) async fn predict(&self, model: &str, received: Received) -> HttpResult {
        let loaded = self.server.find(model, "")?;
        let deadline = deadline(&received)?;
        let specs = inputs(&loaded.engine);
        let target = Target {
            model: model.into(),
            version: "",
        };
        let target = rest_target(&loaded.engine, &target, &specs);
        let mut request = rest::decode_predict(&target, &received.body, &self.limits())
            .map_err(|error| ServeError::codec(&error))?;
        self.forward_headers(&mut request, &received.headers)?;
        let inferred = self.server.infer(&loaded.engine, request, deadline).await?;
        let json =
            rest::encode_predict(&inferred.response).map_err(|error| ServeError::codec(&error))?;
        let mut response = respond::json(json);
        respond::add_cost(&mut response, &inferred.cost, self.server.capacity());
        Ok(response)
    }
}

/// The client's deadline, from `weir-timeout` in milliseconds.
fn deadline(received: &Received) -> Result<Option<Instant>, ServeError> {
    Ok(match received.headers.get(TIMEOUT) {
        None => None,
        Some(_) => {
            let ms = text(&received.headers, TIMEOUT).and_then(|value| value.parse().ok());
            let ms = ms.ok_or_else(|| {
                ServeError::Invalid(format!(
                    "header '{TIMEOUT}' must be a number of milliseconds"
                ))
            })?;
            received.at.checked_add(Duration::from_millis(ms))
        }
    })
}

fn inputs(engine: &Engine) -> Vec<TensorSpec> {
    let signature = &engine.interface().signature;
    signature
        .inputs
        .iter()
        .map(|input| input.spec(signature.max_batch_size))
        .collect()
}

/// The model's names and types, for bodies without them.
fn rest_target<'a>(
    engine: &Engine,
    target: &'a Target<'_>,
    inputs: &'a [TensorSpec],
) -> rest::TargetModel<'a> {
    rest::TargetModel {
        model: &target.model,
        version: target.version,
        inputs,
        batching: engine.interface().batching(),
    }
}

fn output_bytes(inferred: &Inferred) -> usize {
    inferred
        .response
        .outputs
        .iter()
        .map(|(tensor, _)| tensor.data().len())
        .sum()
}
