//! V2 (and V1 `:predict`) over HTTP: encodes and decodes the calls of [`Server`], one file per group of calls.

mod body;
mod control;
mod infer;
mod listen;
mod respond;
mod route;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use hyper::body::Incoming;
use regex::Regex;
use weir_protocol::Coded;
use weir_serve::byte_budget::{BudgetPermit, ByteBudget};
use weir_serve::known_hosts::KnownHosts;
use weir_serve::request_head;
use weir_serve::{AfterBody, BodyEnd, ConnectionLimits, EarlyResponse, end_connection, leave_out_body};

use crate::error::ServeError;
use crate::incoming::compression::Coding;
use crate::incoming::off_reactor;
use crate::incoming::request_body::BodyLimits;
use crate::incoming::restriction::{self, ControlRoutes, Restriction};
use crate::metrics::{Protocol, Requests};
use crate::server::Server;
use crate::tls::RequestTls;
use body::Body;
use infer::UntypedCall;
use route::{Route, Target};

pub(crate) use listen::serve;

/// Settings of the HTTP interface.
#[derive(Clone, Debug)]
pub(crate) struct HttpOptions {
    /// Limit in bytes on JSON, on tensors written as JSON, and on decompressed bodies.
    pub max_input: usize,
    /// Limit in bytes on a body as the client sends it.
    pub max_body: usize,
    /// Limits on the port's connections, and on the time that clients may take.
    pub connections: ConnectionLimits,
    /// Pattern of the request headers that become request parameters; `None` means that none does.
    pub forward: Option<Regex>,
    /// Memory for bodies, from the arrival of the request until its response is sent.
    pub body_budget: ByteBudget,
    /// Origins whose web pages may use the calls that control the server.
    pub hosts: KnownHosts,
    /// Permission for the calls that control the server.
    pub control: ControlRoutes,
    /// Groups of calls that require a header.
    pub restricted: Vec<Restriction>,
    /// TLS of the port; `None` serves plainly.
    pub tls: Option<Arc<RequestTls>>,
}

/// The HTTP interface of a server.
pub(crate) struct Http {
    server: Arc<Server>,
    options: HttpOptions,
    requests: Requests,
}

/// A request whose body was read and decompressed.
struct Received {
    headers: HeaderMap,
    body: Bytes,
    at: Instant,
    /// Counts the bytes of the body, and of everything decoded from it.
    permit: Arc<BudgetPermit>,
}

type HttpResult = Result<Response<Body>, ServeError>;

/// Larger bodies are compressed, decompressed and parsed off the reactor: at about 200 MB/s they would delay every
/// other connection for more than a millisecond.
const LARGE: usize = 256 * 1024;

/// Limit in bytes on the bodies of calls that only contain names or settings: about a hundred times what they need, and
/// still small when parsed.
const MAX_CONTROL_BODY: usize = 64 * 1024;

impl Http {
    /// Creates an interface to `server`.
    #[must_use]
    pub(crate) fn new(server: Arc<Server>, options: HttpOptions, requests: Requests) -> Self {
        Self { server, options, requests }
    }

    /// Answers one request; every failure becomes a response. (An `async fn` would store the request twice in its
    /// future, as argument and as local variable.)
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> impl Future<Output = Response<Body>> {
        let at = now();
        let (parts, body) = request.into_parts();
        async move {
            // If the client disconnects, this is dropped with the future and counts the request as cancelled.
            let in_flight = self.requests.begin(Protocol::Http);
            let id = parts.headers.get(respond::REQUEST_ID).cloned();
            let early = EarlyResponse::of(&parts);
            let mut body = Some(body);
            let checked = request_head::check(&parts.headers).map_err(ServeError::from);
            let is_ambiguous = checked.is_err();
            let route = checked.and_then(|()| Route::parse(&parts.method, parts.uri.path()));
            let route = route.map_err(|error| respond::of_caller(error, &parts.headers));
            let answer = match route {
                Ok(route) => {
                    let end = BodyEnd::of(parts.version);
                    self.receive(&route, parts.headers, (&mut body, end), at).await
                }
                Err(error) => Err(error),
            };
            let after = match body {
                Some(unread) => early.settle(unread).await,
                None => AfterBody::Reusable,
            };
            in_flight.finish(answer.as_ref().err().map(Coded::code));
            let mut response = answer.unwrap_or_else(|error| respond::error(&error));
            if let Some(id) = id {
                response.headers_mut().insert(respond::REQUEST_ID, id);
            }
            // A proxy may have parsed an ambiguous request as two (request smuggling), so the server closes the
            // connection after the response.
            if is_ambiguous || after == AfterBody::Close || self.server.is_draining() {
                end_connection(&mut response, parts.version);
            }
            if parts.method == Method::HEAD {
                leave_out_body(&mut response);
            }
            response
        }
    }

    async fn receive(
        &self,
        route: &Route<'_>,
        headers: HeaderMap,
        (unread, end): (&mut Option<Incoming>, BodyEnd),
        at: Instant,
    ) -> HttpResult {
        self.admit(route, &headers)?;
        let coding = request_coding(route, &headers)?;
        // Counted until the response is sent: the tensors are slices of the body.
        let permit = Arc::new(self.options.body_budget.permit());
        let limits = BodyLimits { end, ..self.body_limits(route) };
        let body = self.read(unread, limits, &permit).await?;
        let body = self.decompress(coding, body, limits.size, &permit).await?;
        let preferred = Coding::preferred(&headers);
        let received = Received { headers, body, at, permit: Arc::clone(&permit) };
        let mut response = self.call(route, received).await?;
        // Other responses are small. Besides, tritonclient's asyncio client requests codings that it cannot decompress.
        if matches!(route, Route::Infer(_) | Route::V1Predict(_)) {
            response = self.compress(preferred, response).await?;
        }
        let (parts, body) = response.into_parts();
        Ok(Response::from_parts(parts, body.charged(&permit)?))
    }

    async fn read(
        &self,
        unread: &mut Option<Incoming>,
        limits: BodyLimits<'_>,
        permit: &BudgetPermit,
    ) -> Result<Bytes, ServeError> {
        let Some(mut body) = unread.take() else {
            return Ok(Bytes::new());
        };
        let read = body::read(&mut body, limits, permit).await;
        if let Err(ServeError::BodyBudgetExhausted { .. } | ServeError::TooLarge(_)) = read {
            // The client is still sending, and reads the reason for the refusal only when its body was read.
            *unread = Some(body);
        }
        read
    }

    fn body_limits(&self, route: &Route<'_>) -> BodyLimits<'_> {
        let size = self.options.max_body;
        self.limits_up_to(if route.carries_data() { size } else { size.min(MAX_CONTROL_BODY) })
    }

    fn limits_up_to(&self, size: usize) -> BodyLimits<'_> {
        BodyLimits {
            size,
            idle: self.options.connections.stall,
            pace: self.options.connections.pace,
            end: BodyEnd::default(),
            stop: self.server.ending(),
        }
    }

    async fn call(&self, route: &Route<'_>, received: Received) -> HttpResult {
        match route {
            Route::Infer(target) => self.infer(target, received).await,
            Route::Generate(target) => self.infer_untyped(target, received, UntypedCall::Generate).await,
            Route::GenerateStream(target) => self.infer_untyped(target, received, UntypedCall::GenerateStream).await,
            Route::V1Predict(model) => {
                let model: &str = model;
                let target = Target { model: model.into(), version: "" };
                self.infer_untyped(&target, received, UntypedCall::Predict).await
            }
            Route::Load(model) => self.load(model, &received).await,
            Route::Unload(model) => self.unload(model, &received).await,
            other => self.control(other, &received),
        }
    }

    /// Refuses control calls under `--control-routes closed` or from web pages of other sites, and calls without the
    /// header of their restricted group.
    fn admit(&self, route: &Route<'_>, headers: &HeaderMap) -> Result<(), ServeError> {
        self.options.control.check(route.group())?;
        if matches!(route, Route::Statistics(None)) {
            self.options.control.check_all_models()?;
        }
        if route.group().is_control() {
            let checked = self.options.hosts.check_origin(headers);
            checked.map_err(|foreign| ServeError::ForeignOrigin(foreign.to_string()))?;
        }
        let given = |name: &str| text(headers, name);
        match restriction::missing_key(&self.options.restricted, route.group(), given) {
            Some(header) => Err(ServeError::Restricted(format!("This API is restricted, expecting header '{header}'"))),
            None => Ok(()),
        }
    }

    async fn decompress(
        &self,
        coding: Coding,
        body: Bytes,
        largest: usize,
        permit: &Arc<BudgetPermit>,
    ) -> Result<Bytes, ServeError> {
        let limit = self.options.max_input.min(largest);
        match coding {
            Coding::Identity => Ok(body),
            // Small bodies can decompress to large ones, so this always runs off the reactor.
            Coding::Gzip | Coding::Deflate => {
                let permit = Arc::clone(permit);
                off_reactor(move || coding.decompress(body, limit, &permit)).await?
            }
        }
    }

    async fn compress(&self, coding: Coding, response: Response<Body>) -> HttpResult {
        if coding == Coding::Identity || http_body::Body::is_end_stream(response.body()) {
            return Ok(response);
        }
        let (mut parts, body) = response.into_parts();
        let bytes = body.into_bytes();
        let compressed = if bytes.len() > LARGE {
            off_reactor(move || coding.compress(&bytes)).await??
        } else {
            coding.compress(&bytes)?
        };
        let name = http::HeaderValue::from_static(coding.name());
        parts.headers.insert(header::CONTENT_ENCODING, name);
        Ok(Response::from_parts(parts, compressed.into()))
    }
}

/// Returns the coding of the body before the body is read, so that nothing is decompressed for a request that is
/// refused anyway.
fn request_coding(route: &Route<'_>, headers: &HeaderMap) -> Result<Coding, ServeError> {
    let coding = Coding::of_request(headers);
    let generates = matches!(route, Route::Generate(_) | Route::GenerateStream(_));
    if generates && coding != Ok(Coding::Identity) {
        return Err(ServeError::Invalid("Unsupported content-encoding, only 'identity' is supported.".to_owned()));
    }
    coding
}

/// Returns a header's value, if it is text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[expect(clippy::disallowed_methods, reason = "the deadline of a request counts from its arrival")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F>(_: fn(Arc<Http>, Request<Incoming>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_waiting_request_is_held_once() {
        // If the future held the request twice, it would be larger.
        assert!(size(Http::answer) < 2880, "{} bytes", size(Http::answer));
    }
}
