//! The calls of the port: a plain `ModelInfer` is answered here, without tonic's layers; the rest by tonic.

use std::future::ready;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::Either;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use tonic::Status;
use tonic::codegen::Service;
use tonic::service::Routes;
use weir_ops::byte_budget::BudgetPermit;
use weir_ops::socket::{BodyEnd, ConnectionLimits};
use weir_protocol::grpc as codec;
use weir_protocol::grpc::proto::ModelInferResponse;
use weir_protocol::{Code, InferRequest};

use super::content_type;
use super::middleware::{self, Middleware, Trailers};
use super::timed_body;
use super::unary::{self, ReplyBody};
use super::{Grpc, status};
use crate::launch::InUse;
use crate::metrics::{Protocol, Requests};
use crate::off_reactor::off_reactor;
use crate::request_body::BodyLimits;

const MODEL_INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

/// The calls of the gRPC port.
pub(super) struct Calls {
    pub(super) grpc: Grpc,
    pub(super) routes: Middleware<Routes>,
    pub(super) requests: Requests,
    pub(super) max_message: usize,
    pub(super) connections: ConnectionLimits,
    pub(super) gzip_responses: bool,
}

/// The part that answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    /// No part: it is no gRPC call.
    NoGrpc,
    /// This file, by its own code.
    PlainInfer,
    /// The routes that tonic makes.
    Routed,
}

impl Calls {
    /// Answers one call; every failure becomes a status. (An `async fn` would hold the request twice.)
    pub(super) fn answer(self: Arc<Self>, request: Request<Incoming>) -> impl Future<Output = Response<ReplyBody>> {
        let kind = self.kind(&request);
        async move {
            match kind {
                CallKind::NoGrpc => return content_type::refusal(),
                CallKind::PlainInfer => {
                    let (Parts { headers, .. }, body) = request.into_parts();
                    return self.infer(headers, body).await;
                }
                CallKind::Routed => {}
            }
            let (mut routes, uri) = (self.routes.clone(), request.uri().clone());
            // Routes are always ready, and never fail.
            let request = timed_body::timed(request, &self.connections);
            match routes.call(request).await {
                Ok(response) if is_unknown(response.headers()) => unknown(uri.path()),
                Ok(response) => {
                    let budget = self.grpc.options.body_budget.clone();
                    response.map(|body| ReplyBody::Routed { body, budget })
                }
                Err(never) => match never {},
            }
        }
    }

    fn kind(&self, request: &Request<Incoming>) -> CallKind {
        if !content_type::is_grpc(request.headers()) {
            CallKind::NoGrpc
        } else if self.is_plain_infer(request) {
            CallKind::PlainInfer
        } else {
            CallKind::Routed
        }
    }

    /// Whether it is one `ModelInfer` message, uncompressed, to be answered by another.
    fn is_plain_infer(&self, request: &Request<Incoming>) -> bool {
        let is = |name, test: fn(&[u8]) -> bool| {
            let value = request.headers().get(name);
            value.map(|value| test(value.as_bytes()))
        };
        request.uri().path() == MODEL_INFER
            && !self.gzip_responses
            && is(header::CONTENT_TYPE.as_str(), |value| {
                value == b"application/grpc" || value.starts_with(b"application/grpc+")
            }) == Some(true)
            && is("grpc-encoding", |value| value == b"identity").unwrap_or(true)
    }

    async fn infer(&self, headers: HeaderMap, body: Incoming) -> Response<ReplyBody> {
        if let Some(refusal) = middleware::refusal(&self.grpc.options, MODEL_INFER, &headers) {
            return refusal.into_http();
        }
        let timeout = match super::grpc_timeout(&headers) {
            Ok(timeout) => timeout,
            Err(error) => return status(&error).into_http(),
        };
        // Dropped with this future when the client leaves, it counts as cancelled.
        let in_flight = self.requests.begin(Protocol::Grpc);
        // Handed on by its address: handed on itself, it would be held twice.
        let answer = pin!(self.infer_message(headers, body));
        let answer = middleware::with_timeout(timeout, answer).await;
        let failure = answer.as_ref().err();
        in_flight.finish(failure.and_then(|status| Code::of_grpc(status.code())));
        answer.unwrap_or_else(Status::into_http)
    }

    async fn infer_message(&self, headers: HeaderMap, body: Incoming) -> Result<Response<ReplyBody>, Status> {
        let deadline = super::deadline(&headers).map_err(|error| status(&error))?;
        // Until the request is answered: tensors lie in the message's own bytes.
        let permit = self.grpc.options.body_budget.permit();
        let message = unary::read(body, self.limits(), &permit).await?;
        let received = Received { message, headers, permit };
        let (loaded, request, permit) = received.decoded(&self.grpc).await?;
        let server = &self.grpc.server;
        let inferred = server.infer(&loaded.engine, request, deadline).await;
        let inferred = inferred.map_err(|error| status(&error))?;
        let Trailers(trailers) = Trailers::of(&inferred.cost, server.capacity());
        let response = codec::encode_response(inferred.response);
        written(response, trailers, self.max_message, permit).await
    }

    fn limits(&self) -> BodyLimits<'_> {
        BodyLimits {
            size: self.max_message,
            idle: self.connections.stall,
            pace: self.connections.pace,
            end: BodyEnd::Flagged,
            stop: self.grpc.server.ending(),
        }
    }
}

/// A call whose message has come whole.
struct Received {
    message: Bytes,
    headers: HeaderMap,
    permit: BudgetPermit,
}

/// A loaded model, the request that a message has for it, and the permit that holds the message's bytes.
type Decoded = (InUse, InferRequest, BudgetPermit);

impl Received {
    /// Decodes the message, at once or aside. While it waits then, a request holds no more than it needs: hundreds of them
    /// have to fit in the processor's caches.
    fn decoded(self, grpc: &Grpc) -> impl Future<Output = Result<Decoded, Status>> + use<> {
        if self.message.len() <= LARGE {
            return Either::Left(ready(self.decode(grpc)));
        }
        let grpc = grpc.clone();
        Either::Right(aside(move || self.decode(&grpc)))
    }

    fn decode(self, grpc: &Grpc) -> Result<Decoded, Status> {
        let request = unary::decode(self.message, &self.permit)?;
        let decoded = grpc.decode(request, &self.headers);
        let (loaded, request) = decoded.map_err(|error| status(&error))?;
        Ok((loaded, request, self.permit))
    }
}

/// Writes an answer, at once or aside.
fn written(
    response: ModelInferResponse,
    trailers: HeaderMap,
    limit: usize,
    permit: BudgetPermit,
) -> impl Future<Output = Result<Response<ReplyBody>, Status>> {
    let outputs = response.raw_output_contents.iter();
    let is_large = outputs.map(Bytes::len).sum::<usize>() > LARGE;
    let write = move || unary::write(&response, trailers, limit, permit);
    if is_large { Either::Right(aside(write)) } else { Either::Left(ready(write())) }
}

/// A message of more bytes is decoded or written off the reactor: numbers in fields of their own, at some 200 MB/s, would
/// hold up every other connection for milliseconds. The way to another thread costs what copying a tenth of these bytes does.
const LARGE: usize = 1 << 20;

/// Does the work off the reactor. Boxed, as few calls are large, and all would hold its space while they wait.
fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Pin<Box<dyn Future<Output = Result<T, Status>> + Send>> {
    Box::pin(async move {
        let done = off_reactor(work).await;
        done.unwrap_or_else(|error| Err(status(&error)))
    })
}

/// True for tonic's answer to a method that it does not know, which has a status and no message.
fn is_unknown(headers: &HeaderMap) -> bool {
    let unimplemented = headers.get(Status::GRPC_STATUS) == Some(&HeaderValue::from_static("12"));
    unimplemented && !headers.contains_key(Status::GRPC_MESSAGE)
}

fn unknown(path: &str) -> Response<ReplyBody> {
    let sentence = format!("unknown method {path:?}: reflection lists the methods of this port");
    codec::status_with(Code::Unimplemented, &sentence).into_http()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F>(_: fn(Arc<Calls>, Request<Incoming>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_waiting_call_is_held_once() {
        // A call that is moved where its address would do, or a request held twice, is larger.
        assert!(size(Calls::answer) < 2176, "{} bytes", size(Calls::answer));
    }
}
