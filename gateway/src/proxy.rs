//! The life of a request: find its service, take its body, wait for a credit, send it, and again if the
//! replica is lost.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::request::Parts;
use http::{Request, Response, header};
use hyper::body::Incoming;
use weir_protocol::grpc::{NameField, PEEK_LIMIT, Peek, peek_model_name};

use crate::batching::{self, BatchSettings};
use crate::body::{BufferLimits, BufferMode, BufferedBody, DownstreamBody, discard};
use crate::clock::now;
use crate::codec;
use crate::deadline::{Deadline, parse_grpc_timeout, parse_weir_timeout};
use crate::error::GatewayError;
use crate::forward::ProxyRequest;
use crate::forward::trusted_headers;
use crate::gateway::Gateway;
use crate::headers;
use crate::mirror;
use crate::protocol::Protocol;
use crate::router::local;
use crate::router::{RouteMatch, Scope, Target, model_of_path};
use crate::server::request_checks;
use crate::state::State;

const V2_SERVICE: &str = "/inference.GRPCInferenceService";

/// What the first look at a request found.
enum Look {
    Target(Target),
    /// Nobody but us has to answer.
    Ours(Box<Response<DownstreamBody>>),
    /// The model's name in its first message leads to it.
    ByMessage(NameField),
}

/// What a look into a message found.
enum Named {
    Target(Target),
    /// Nobody but us has to answer.
    Ours(Box<Response<DownstreamBody>>),
}

impl Gateway {
    /// Answers one request from this address; every failure becomes a response.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        from: Option<IpAddr>,
    ) -> Response<DownstreamBody> {
        let arrived = now();
        let (mut parts, body) = request.into_parts();
        trusted_headers::remove_untrusted(&mut parts.headers, from, self);
        let protocol = Protocol::of(&parts.headers);
        self.requests.count(protocol);
        let id = parts.headers.entry(headers::REQUEST_ID);
        let id = id.or_insert_with(headers::new_request_id);
        // Differs on every request: indexed, it would only push what repeats out of HTTP/2's tables.
        id.set_sensitive(true);
        let id = id.clone();
        let mut body = Some(body);
        let answer = self.handle(protocol, &mut parts, &mut body, arrived).await;
        let mut response = answer.unwrap_or_else(|error| codec::error(protocol, &error));
        if let Some(unread) = body {
            // Its sender reads the answer only after it has sent all, and hyper would hang up.
            Box::pin(discard(unread)).await;
        }
        response.headers_mut().insert(headers::REQUEST_ID, id);
        response
    }

    async fn handle(
        self: &Arc<Self>,
        protocol: Protocol,
        parts: &mut Parts,
        body: &mut Option<Incoming>,
        arrived: Instant,
    ) -> Result<Response<DownstreamBody>, GatewayError> {
        request_checks::check(parts)?;
        let look = self
            .look(protocol, parts)
            .inspect_err(|_| self.requests.count_unrouted())?;
        let (mut target, mut buffered, deadline) = match look {
            Look::Ours(response) => return Ok(*response),
            Look::Target(target) => {
                let deadline = requested_deadline(parts, arrived)?.within(target.route.timeout);
                let buffer_mode = buffer_mode(protocol, parts.uri.path());
                let buffered = self.receive(body, buffer_mode, deadline).await?;
                (target, buffered, deadline)
            }
            Look::ByMessage(field) => {
                let buffer_mode = match buffer_mode(protocol, parts.uri.path()) {
                    BufferMode::Stream => BufferMode::FirstMessage,
                    other => other,
                };
                let deadline = requested_deadline(parts, arrived)?;
                let buffered = self.receive(body, buffer_mode, deadline).await?;
                match self.look_into(parts, field, &buffered)? {
                    Named::Target(target) => {
                        let deadline = deadline.within(target.route.timeout);
                        (target, buffered, deadline)
                    }
                    Named::Ours(response) => return Ok(*response),
                }
            }
        };
        deadline.check(now, buffered.size())?;
        let batching = BatchSettings::of(&target.route);
        let mirror_target = target.mirror_target.take();
        let request = ProxyRequest::new(protocol, parts, target, deadline);
        if let Some(mirror_target) = mirror_target {
            self.mirror(mirror_target, &request, &buffered);
        }
        match batching {
            Some(settings) => {
                Box::pin(batching::forward_batched(self, request, buffered, settings)).await
            }
            None => self.forward(&request, &mut buffered).await,
        }
    }

    fn look(&self, protocol: Protocol, parts: &Parts) -> Result<Look, GatewayError> {
        let state = self.state.load();
        let (host, path) = (host(parts), parts.uri.path());
        if let Some(found) = state.routes.matcher.by_address(host, path) {
            return target(&state, parts, found).map(Look::Target);
        }
        if state.routes.matcher.scope() == Scope::Local {
            if let Some(response) = local::answer(&state, protocol, &parts.method, path) {
                return response.map(|response| Look::Ours(Box::new(response)));
            }
            if protocol == Protocol::Grpc
                && let Some((V2_SERVICE, method)) = path.rsplit_once('/')
                && let Some(field) = NameField::of(method)
            {
                return Ok(Look::ByMessage(field));
            }
            if let Some(model) = model_of_path(path) {
                let found = state.routes.matcher.by_model(&model);
                let found =
                    found.ok_or_else(|| state.routes.matcher.no_route(format!("model {model:?}")));
                return target(&state, parts, found?).map(Look::Target);
            }
        }
        let asked = format!("host {:?}, path {path:?}", host.unwrap_or_default());
        Err(state.routes.matcher.no_route(asked))
    }

    fn look_into(
        &self,
        parts: &Parts,
        field: NameField,
        buffered: &BufferedBody,
    ) -> Result<Named, GatewayError> {
        let state = self.state.load();
        let encoding = headers::text(
            &parts.headers,
            &http::HeaderName::from_static("grpc-encoding"),
        );
        let head = buffered.head(PEEK_LIMIT);
        let message = codec::grpc::first_message(&head, encoding, PEEK_LIMIT).unwrap_or_default();
        let model = match peek_model_name(field, &message) {
            Peek::Found(model) => model,
            Peek::Absent | Peek::Cut | Peek::Malformed => "",
        };
        if let Some(found) = state.routes.matcher.by_model(model) {
            return target(&state, parts, found).map(Named::Target);
        }
        self.requests.count_unrouted();
        match local::grpc::unnamed(parts.uri.path(), model) {
            Some(answer) => answer.map(|response| Named::Ours(Box::new(response))),
            None => Err(state.routes.matcher.no_route(format!("model {model:?}"))),
        }
    }

    async fn receive(
        &self,
        body: &mut Option<Incoming>,
        buffer_mode: BufferMode,
        deadline: Deadline,
    ) -> Result<BufferedBody, GatewayError> {
        let limits = BufferLimits {
            size: self.options.request_buffer,
            idle: self.options.body_idle,
            deadline,
            budget: &self.buffers,
            shutdown: &self.ending,
        };
        match body.take() {
            Some(body) => BufferedBody::receive(body, buffer_mode, &limits).await,
            None => Err(GatewayError::Body("was read already".to_owned())),
        }
    }
}

fn target(state: &State, parts: &Parts, found: RouteMatch<'_>) -> Result<Target, GatewayError> {
    let pin = headers::text(&parts.headers, &headers::REVISION);
    let tag = headers::text(&parts.headers, &headers::TAG);
    let next_sample = || state.next_sample(&found.route.service);
    let name = found.revision(pin, tag, next_sample)?;
    let queue = state.routes.queues.get(name);
    let queue = queue.ok_or_else(|| GatewayError::Gone(name.to_string()))?;
    Ok(Target {
        queue: Arc::clone(queue),
        route: Arc::clone(found.route),
        prefix: found.prefix,
        mirror_target: mirror::target(state, &parts.headers, &found, name),
    })
}

/// The host that was asked for.
fn host(parts: &Parts) -> Option<&str> {
    match parts.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers::text(&parts.headers, &header::HOST),
    }
}

/// V2's calls are known; of others only their behaviour tells whether they are streams.
fn buffer_mode(protocol: Protocol, path: &str) -> BufferMode {
    if protocol == Protocol::Http {
        return BufferMode::Whole;
    }
    let (service, method) = path.rsplit_once('/').unwrap_or_default();
    match (service.ends_with(V2_SERVICE), method) {
        (true, "ModelStreamInfer") => BufferMode::Stream,
        (true, _) => BufferMode::Whole,
        (false, _) => BufferMode::FirstMessage,
    }
}

/// As its sender says it.
fn requested_deadline(parts: &Parts, arrived: Instant) -> Result<Deadline, GatewayError> {
    let deadline = Deadline::none(arrived);
    let grpc = text_as(parts, &headers::GRPC_TIMEOUT, parse_grpc_timeout)?;
    let weir = text_as(parts, &headers::TIMEOUT, parse_weir_timeout)?;
    Ok(deadline.within(grpc).within(weir))
}

fn text_as<T>(
    parts: &Parts,
    name: &http::HeaderName,
    parse: impl Fn(&str) -> Result<T, GatewayError>,
) -> Result<Option<T>, GatewayError> {
    let Some(value) = parts.headers.get(name) else {
        return Ok(None);
    };
    // What is no text is no number either.
    parse(value.to_str().unwrap_or("?")).map(Some)
}
