//! The life of a request: find its service, take its body, wait for a credit, send it, and again if the
//! replica is lost.

mod call;
mod copy;
mod form;
mod send;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::request::Parts;
use http::{Request, Response, header};
use hyper::body::Incoming;
use weir_cluster::Route;
use weir_protocol::grpc::{NameField, PEEK_LIMIT, Peek, peek_model_name};

use crate::answer::Answer;
use crate::batching::{self, Rules};
use crate::claims;
use crate::clock::now;
use crate::codec;
use crate::deadline::{Due, parse_grpc_timeout, parse_weir_timeout};
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::headers;
use crate::line::Line;
use crate::local;
use crate::mirror::{self, Shadow};
use crate::receive::{Held, Limits, Patience, discard};
use crate::route::{Found, Scope, model_of_path};
use crate::view::View;
use crate::wire::Wire;
pub(crate) use call::Call;

const V2_SERVICE: &str = "/inference.GRPCInferenceService";

/// Where a request goes.
struct Target {
    line: Arc<Line>,
    route: Arc<Route>,
    prefix: usize,
    /// Where its copy goes, if it has one.
    shadow: Option<Shadow>,
}

/// What the first look at a request found.
enum Look {
    Target(Target),
    /// Nobody but us has to answer.
    Ours(Box<Response<Answer>>),
    /// The model's name in its first message leads to it.
    ByMessage(NameField),
}

/// What a look into a message found.
enum Named {
    Target(Target),
    /// Nobody but us has to answer.
    Ours(Box<Response<Answer>>),
}

impl Gateway {
    /// Answers one request from this address; every failure becomes a response.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        from: Option<IpAddr>,
    ) -> Response<Answer> {
        let arrived = now();
        let (mut parts, body) = request.into_parts();
        claims::drop_false(&mut parts.headers, from, self);
        let wire = Wire::of(&parts.headers);
        self.requests.count(wire);
        let id = parts.headers.entry(headers::REQUEST_ID);
        let id = id.or_insert_with(headers::new_request_id);
        // Differs on every request: indexed, it would only push what repeats out of HTTP/2's tables.
        id.set_sensitive(true);
        let id = id.clone();
        let mut body = Some(body);
        let answer = self.handle(wire, &mut parts, &mut body, arrived).await;
        let mut response = answer.unwrap_or_else(|error| codec::error(wire, &error));
        if let Some(unread) = body {
            // Its sender reads the answer only after it has sent all, and hyper would hang up.
            Box::pin(discard(unread)).await;
        }
        response.headers_mut().insert(headers::REQUEST_ID, id);
        response
    }

    async fn handle(
        self: &Arc<Self>,
        wire: Wire,
        parts: &mut Parts,
        body: &mut Option<Incoming>,
        arrived: Instant,
    ) -> Result<Response<Answer>, GatewayError> {
        form::check(parts)?;
        let look = self
            .look(wire, parts)
            .inspect_err(|_| self.requests.count_unrouted())?;
        let (mut target, mut held, due) = match look {
            Look::Ours(response) => return Ok(*response),
            Look::Target(target) => {
                let due = due(parts, arrived)?.within(target.route.timeout);
                let patience = patience(wire, parts.uri.path());
                let held = self.receive(body, patience, due).await?;
                (target, held, due)
            }
            Look::ByMessage(field) => {
                let patience = match patience(wire, parts.uri.path()) {
                    Patience::Nothing => Patience::Message,
                    other => other,
                };
                let due = due(parts, arrived)?;
                let held = self.receive(body, patience, due).await?;
                match self.look_into(parts, field, &held)? {
                    Named::Target(target) => {
                        let due = due.within(target.route.timeout);
                        (target, held, due)
                    }
                    Named::Ours(response) => return Ok(*response),
                }
            }
        };
        due.check(now, held.size())?;
        let rules = Rules::of(&target.route);
        let shadow = target.shadow.take();
        let call = Call::new(wire, parts, target, due);
        if let Some(shadow) = shadow {
            self.copy(shadow, &call, &held);
        }
        match rules {
            Some(rules) => Box::pin(batching::deliver(self, call, held, rules)).await,
            None => self.carry(&call, &mut held).await,
        }
    }

    fn look(&self, wire: Wire, parts: &Parts) -> Result<Look, GatewayError> {
        let view = self.view.load();
        let (host, path) = (host(parts), parts.uri.path());
        if let Some(found) = view.ways.table.by_address(host, path) {
            return target(&view, parts, found).map(Look::Target);
        }
        if view.ways.table.scope() == Scope::Local {
            if let Some(response) = local::answer(&view, wire, &parts.method, path) {
                return response.map(|response| Look::Ours(Box::new(response)));
            }
            if wire == Wire::Grpc
                && let Some((V2_SERVICE, method)) = path.rsplit_once('/')
                && let Some(field) = NameField::of(method)
            {
                return Ok(Look::ByMessage(field));
            }
            if let Some(model) = model_of_path(path) {
                let found = view.ways.table.by_model(&model);
                let found =
                    found.ok_or_else(|| view.ways.table.no_route(format!("model {model:?}")));
                return target(&view, parts, found?).map(Look::Target);
            }
        }
        let asked = format!("host {:?}, path {path:?}", host.unwrap_or_default());
        Err(view.ways.table.no_route(asked))
    }

    fn look_into(
        &self,
        parts: &Parts,
        field: NameField,
        held: &Held,
    ) -> Result<Named, GatewayError> {
        let view = self.view.load();
        let encoding = headers::text(
            &parts.headers,
            &http::HeaderName::from_static("grpc-encoding"),
        );
        let head = held.head(PEEK_LIMIT);
        let message = codec::grpc::first_message(&head, encoding, PEEK_LIMIT).unwrap_or_default();
        let model = match peek_model_name(field, &message) {
            Peek::Found(model) => model,
            Peek::Absent | Peek::Cut | Peek::Malformed => "",
        };
        if let Some(found) = view.ways.table.by_model(model) {
            return target(&view, parts, found).map(Named::Target);
        }
        self.requests.count_unrouted();
        match local::grpc::unnamed(parts.uri.path(), model) {
            Some(answer) => answer.map(|response| Named::Ours(Box::new(response))),
            None => Err(view.ways.table.no_route(format!("model {model:?}"))),
        }
    }

    async fn receive(
        &self,
        body: &mut Option<Incoming>,
        patience: Patience,
        due: Due,
    ) -> Result<Held, GatewayError> {
        let limits = Limits {
            size: self.options.request_buffer,
            idle: self.options.body_idle,
            due,
            buffers: &self.buffers,
            ending: &self.ending,
        };
        match body.take() {
            Some(body) => Held::receive(body, patience, &limits).await,
            None => Err(GatewayError::Body("was read already".to_owned())),
        }
    }
}

fn target(view: &View, parts: &Parts, found: Found<'_>) -> Result<Target, GatewayError> {
    let pin = headers::text(&parts.headers, &headers::REVISION);
    let tag = headers::text(&parts.headers, &headers::TAG);
    let luck = || view.luck(&found.route.service);
    let name = found.revision(pin, tag, luck)?;
    let line = view.ways.lines.get(name);
    let line = line.ok_or_else(|| GatewayError::Gone(name.to_string()))?;
    Ok(Target {
        line: Arc::clone(line),
        route: Arc::clone(found.route),
        prefix: found.prefix,
        shadow: mirror::shadow(view, &parts.headers, &found, name),
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
fn patience(wire: Wire, path: &str) -> Patience {
    if wire == Wire::Http {
        return Patience::Whole;
    }
    let (service, method) = path.rsplit_once('/').unwrap_or_default();
    match (service.ends_with(V2_SERVICE), method) {
        (true, "ModelStreamInfer") => Patience::Nothing,
        (true, _) => Patience::Whole,
        (false, _) => Patience::Message,
    }
}

/// As its sender says it.
fn due(parts: &Parts, arrived: Instant) -> Result<Due, GatewayError> {
    let due = Due::none(arrived);
    let grpc = text_as(parts, &headers::GRPC_TIMEOUT, parse_grpc_timeout)?;
    let weir = text_as(parts, &headers::TIMEOUT, parse_weir_timeout)?;
    Ok(due.within(grpc).within(weir))
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
