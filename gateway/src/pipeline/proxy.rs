//! The whole way of a request: route → buffer → queue → forward (retry) → respond.
//!
//! ```text
//!   server ─► route ─► buffer ─┬─────────────┬─► queue ─► forward ─► replica ─► relay the response
//!            (router)  (body)  ├─► batching ─┘   (queue)  (forward)  (upstream)
//!                              └─► mirror: a copy, in a task of its own
//! ```

use std::sync::Arc;
use std::time::Instant;

use http::Response;
use http::request::Parts;
use hyper::body::Incoming;
use weir_protocol::grpc::NameField;
use weir_protocol::{Code, rest};
use weir_serve::BodyEnd;

use crate::access::Guard;
use crate::body::{BufferLimits, BufferMode, BufferNeed, BufferedBody, DownstreamBody};
use crate::clock::now;
use crate::codec;
use crate::context::Context;
use crate::error::GatewayError;
use crate::pipeline::batching::{BatchSettings, Batching};
use crate::pipeline::forward::{ProxyRequest, forward, mirror, read_ahead};
use crate::pipeline::health;
use crate::pipeline::health::probe_services::ProbeServices;
use crate::queue::ClientShare;
use crate::rates::Meter;
use crate::router::mirror::MirrorTarget;
use crate::router::{CheckedBody, Lookup, Routed, Target};
use crate::upstream::Upgrade;
use crate::wire::deadline::Deadline;
use crate::wire::protocol::Protocol;

/// The request path of one gateway.
pub(crate) struct Proxy {
    pub(crate) context: Arc<Context>,
    batching: Batching,
    probes: ProbeServices,
}

/// Protocol, arrival and sender of a request.
pub(crate) struct Inbound<'a> {
    pub(crate) protocol: Protocol,
    pub(crate) arrived: Instant,
    /// Access check of the request's sender.
    pub(crate) guard: &'a Guard<'a>,
}

impl Proxy {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self {
            batching: Batching::new(Arc::clone(&context)),
            probes: ProbeServices::new(context.leaving.clone(), context.shutdown.clone()),
            context,
        }
    }

    /// Answers one request. Takes `body` out of the option if the body is read.
    pub(crate) async fn proxy(
        &self,
        inbound: &Inbound<'_>,
        parts: &mut Parts,
        body: &mut Option<Incoming>,
    ) -> Result<Response<DownstreamBody>, GatewayError> {
        let &Inbound { protocol, arrived, guard } = inbound;
        let mode = BufferMode::of(protocol, parts.uri.path());
        let (routed, buffered) = match self.route(protocol, parts, guard)? {
            Lookup::Probe => return Box::pin(self.probe(parts, body)).await,
            Lookup::Alive => return Ok(self.alive()),
            Lookup::Routed(routed) => (routed, None),
            Lookup::ByMessage(field) => self.route_message(inbound, parts, body, field).await?,
            Lookup::ByBody => self.route_body(inbound, parts, body).await?,
        };
        let mut target = match routed {
            Routed::Service(target) => target,
            Routed::Local(response) => return Ok(*response),
        };
        if let Some(path) = health::grpc::path_of_call(protocol, parts, target.prefix) {
            return Box::pin(self.service_health(path, parts, body)).await;
        }
        let deadline = Deadline::requested(&parts.headers, arrived)?.within(target.route.timeout);
        let mut buffered = match buffered {
            Some(buffered) => buffered,
            None => {
                let limits = self.limits(inbound, BodyEnd::of(parts.version), deadline, BufferNeed::Nothing);
                receive(body, mode, &limits).await?
            }
        };
        let deadline = deadline.enforce(now, buffered.size())?;
        target.check_message(parts, &buffered, guard)?;
        let (batching, mirrored) = extras(parts, &mut target);
        let mut request = ProxyRequest::new(protocol, parts, target, deadline);
        request.limited = guard.client();
        let meter = guard.meter().cloned();
        if health::v2::is_health_call(&request) {
            // Boxed, so that the future of other requests reserves no space for it.
            return Ok(Box::pin(health::v2::answer(&request, &mut buffered)).await);
        }
        if let Some(mirrored) = mirrored {
            mirror::send(&self.context, mirrored, &request, &buffered);
        }
        if let Some(meter) = &meter {
            request.meter_by(meter);
            buffered.meter_by(meter);
        }
        let response = match batching {
            Some(settings) => Box::pin(self.batching.forward(request, buffered, settings)).await?,
            None => forward(&self.context, &request, &mut buffered).await?,
        };
        let response = match meter {
            Some(meter) => metered(response, meter),
            None => response,
        };
        let permit = || self.context.budget.permit_of(guard.client().map(ClientShare::holder));
        Ok(read_ahead(response, protocol, mode, permit).await)
    }

    /// Waits for batches in flight and drops mirrored requests. A batch whose clients have all disconnected ends by
    /// itself.
    pub(crate) async fn drain(&self) {
        self.batching.drain().await;
        self.context.mirrors.stop().await;
    }

    /// Routes a request by its head.
    fn route(&self, protocol: Protocol, parts: &Parts, guard: &Guard<'_>) -> Result<Lookup, GatewayError> {
        let routed = self.context.state.load().routes.route(protocol, parts, guard);
        routed.map_err(|error| {
            self.context.counters.count_unrouted(&error);
            guard.conceal(error)
        })
    }

    /// Receives the first message of a gRPC call, and routes the call by the model that it names.
    async fn route_message(
        &self,
        inbound: &Inbound<'_>,
        parts: &Parts,
        body: &mut Option<Incoming>,
        field: NameField,
    ) -> Result<(Routed, Option<BufferedBody>), GatewayError> {
        let buffered = self.receive_unrouted(inbound, parts, body, BufferNeed::ModelName).await?;
        let (state, counters) = (self.context.state.load(), &self.context.counters);
        let checked = CheckedBody { buffered: &buffered, guard: inbound.guard };
        let routed = state.routes.route_message(parts, field, &checked, |error| counters.count_unrouted(error))?;
        Ok((routed, Some(buffered)))
    }

    /// Receives the body of a call of OpenAI's API, and routes the call by the model that it names.
    async fn route_body(
        &self,
        inbound: &Inbound<'_>,
        parts: &Parts,
        body: &mut Option<Incoming>,
    ) -> Result<(Routed, Option<BufferedBody>), GatewayError> {
        let buffered = self.receive_unrouted(inbound, parts, body, BufferNeed::Nothing).await?;
        let (state, counters) = (self.context.state.load(), &self.context.counters);
        let checked = CheckedBody { buffered: &buffered, guard: inbound.guard };
        let routed = state.routes.route_body(parts, &checked, |error| counters.count_unrouted(error));
        Ok((routed.map_err(|error| inbound.guard.conceal(error))?, Some(buffered)))
    }

    /// Answers a call to gRPC's health or reflection service.
    async fn probe(
        &self,
        parts: &Parts,
        body: &mut Option<Incoming>,
    ) -> Result<Response<DownstreamBody>, GatewayError> {
        let upload = self.context.options.connections.upload();
        let body = body.take().ok_or_else(was_read)?;
        Ok(self.probes.answer(parts, body, upload).await)
    }

    /// Answers a call to gRPC's health service about one service.
    async fn service_health(
        &self,
        path: &'static str,
        parts: &Parts,
        body: &mut Option<Incoming>,
    ) -> Result<Response<DownstreamBody>, GatewayError> {
        let body = body.take().ok_or_else(was_read)?;
        Ok(health::grpc::answer(&self.context, path, parts, body).await)
    }

    /// Answers the liveness check of the gateway itself. It fails once the gateway leaves, so that load balancers
    /// choose another gateway.
    fn alive(&self) -> Response<DownstreamBody> {
        if self.context.leaving.is_cancelled() {
            return codec::http::error(Code::Unavailable, "the gateway is shutting down");
        }
        codec::http::json(rest::alive())
    }

    /// Buffers the body of a request whose head does not name the model.
    async fn receive_unrouted(
        &self,
        inbound: &Inbound<'_>,
        parts: &Parts,
        body: &mut Option<Incoming>,
        need: BufferNeed,
    ) -> Result<BufferedBody, GatewayError> {
        let deadline = Deadline::requested(&parts.headers, inbound.arrived)?;
        let limits = self.limits(inbound, BodyEnd::of(parts.version), deadline, need);
        receive(body, BufferMode::of(inbound.protocol, parts.uri.path()), &limits).await
    }

    fn limits(&self, inbound: &Inbound<'_>, end: BodyEnd, deadline: Deadline, need: BufferNeed) -> BufferLimits<'_> {
        BufferLimits {
            size: self.context.options.request_buffer,
            need,
            idle: self.context.options.connections.stall,
            pace: self.context.options.connections.pace,
            end,
            deadline,
            budget: &self.context.budget,
            holder: inbound.guard.client().map(ClientShare::holder),
            shutdown: &self.context.shutdown,
        }
    }
}

/// Returns the request's batch settings and the target of its mirrored copy. A WebSocket has neither.
fn extras(parts: &Parts, target: &mut Target) -> (Option<BatchSettings>, Option<MirrorTarget>) {
    match Upgrade::of(parts) {
        Upgrade::None => (BatchSettings::of(&target.route), target.mirror.take()),
        Upgrade::WebSocket => (None, None),
    }
}

/// Returns a response whose body the meter counts.
fn metered(response: Response<DownstreamBody>, meter: Meter) -> Response<DownstreamBody> {
    let (parts, body) = response.into_parts();
    let body = body.metered(meter, &parts.headers);
    Response::from_parts(parts, body)
}

async fn receive(
    body: &mut Option<Incoming>,
    mode: BufferMode,
    limits: &BufferLimits<'_>,
) -> Result<BufferedBody, GatewayError> {
    match body.take() {
        Some(body) => BufferedBody::receive(body, mode, limits).await,
        None => Err(was_read()),
    }
}

fn was_read() -> GatewayError {
    GatewayError::Body("was already read".to_owned())
}
