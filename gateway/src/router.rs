//! Finds the service and the revision of a request. The host, path or model leads to the service; a pin, a tag or else
//! the split chooses the revision.

mod control;
mod health;
mod local;
mod matcher;
pub(crate) mod mirror;
mod openai;
mod path;
mod split;
mod table;

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response, header};
use weir_cluster::Route;
use weir_protocol::grpc::{NameField, PEEK_LIMIT, find_model_name};

use crate::access::{Choice, Guard};
use crate::body::{BufferedBody, ChunkReader, DownstreamBody};
use crate::codec::grpc::{first_message, plain_message, unknown_encoding};
use crate::error::GatewayError;
use crate::options::Scope;
use crate::port::PortHost;
use crate::queue::{ClientShare, RevisionQueue};
use crate::wire::headers;
use crate::wire::protocol::Protocol;
use matcher::RouteMatch;
use mirror::MirrorTarget;
pub(crate) use path::model_of_path;
pub(crate) use table::RouteTable;

const V2_SERVICE: &str = "/inference.GRPCInferenceService";

/// Path prefixes of gRPC's health and reflection services.
const PROBE_PREFIXES: [&str; 2] = ["/grpc.health.v1.Health/", "/grpc.reflection."];

/// The service and revision that a request was routed to.
pub(crate) struct Target {
    pub(crate) queue: Arc<RevisionQueue>,
    pub(crate) route: Arc<Route>,
    /// Length of the path prefix that is removed for the replica, in bytes.
    pub(crate) prefix: usize,
    /// The client that is charged for the request.
    pub(crate) share: ClientShare,
    /// Revision that gets a copy; `None` without a mirror, or if this request is not sampled.
    pub(crate) mirror: Option<MirrorTarget>,
}

/// Result of routing a request.
pub(crate) enum Routed {
    Service(Target),
    /// Answered by the gateway itself, without a replica.
    Local(Box<Response<DownstreamBody>>),
}

/// Result of routing a request by its head.
pub(crate) enum Lookup {
    Routed(Routed),
    /// Cannot be decided before the first message, which has the model's name in this field.
    ByMessage(NameField),
    /// Cannot be decided before the JSON body, which has the model's name.
    ByBody,
    /// gRPC health or reflection of the gateway itself.
    Probe,
    /// Liveness check of the gateway itself.
    Alive,
}

/// The buffered body of a request that names its model there, and the check of the request.
#[derive(Clone, Copy)]
pub(crate) struct CheckedBody<'a> {
    pub(crate) buffered: &'a BufferedBody,
    pub(crate) guard: &'a Guard<'a>,
}

impl RouteTable {
    /// Routes a request by its host, its path, or the model in its path. A service that the sender may not use counts
    /// as one that does not exist.
    pub(crate) fn route(&self, protocol: Protocol, parts: &Parts, guard: &Guard<'_>) -> Result<Lookup, GatewayError> {
        self.matcher.check_host(parts, guard)?;
        let found = self.matcher.by_address(host(parts), parts.uri.path());
        let Some(found) = found else {
            return self.route_without_service(protocol, parts, guard);
        };
        let refused = match self.to_service(parts, &found, guard) {
            Err(GatewayError::Refused(refused)) if !guard.sees(found.route) => refused,
            routed => return routed,
        };
        // An answer that any host gets, such as the gateway's own health, is the answer here too.
        let routed = self.route_without_service(protocol, parts, guard);
        routed.map_err(|error| match guard.conceal(error) {
            GatewayError::Refused(_) => GatewayError::Refused(refused),
            other => other,
        })
    }

    /// Routes a request whose host and path lead to no service.
    fn route_without_service(
        &self,
        protocol: Protocol,
        parts: &Parts,
        guard: &Guard<'_>,
    ) -> Result<Lookup, GatewayError> {
        let (host, path) = (host(parts), parts.uri.path());
        if protocol == Protocol::Grpc && PROBE_PREFIXES.iter().any(|prefix| path.starts_with(prefix)) {
            if !path.starts_with(PROBE_PREFIXES[0]) {
                guard.admit(self.opened)?;
            }
            return Ok(Lookup::Probe);
        }
        if protocol == Protocol::Http && self.is_liveness(&parts.method, path) {
            return Ok(Lookup::Alive);
        }
        if self.matcher.scope() == Scope::Local
            && let Some(found) = self.route_by_model(protocol, parts, guard)
        {
            return found;
        }
        if protocol == Protocol::Grpc && self.is_unknown_method(path) {
            return Err(self.matcher.no_method(path));
        }
        Err(self.matcher.no_address(host, path))
    }

    /// Routes a request by the model in its path or first message, or answers it for all services. Returns `None` if
    /// the request names no model and is no such call.
    fn route_by_model(
        &self,
        protocol: Protocol,
        parts: &Parts,
        guard: &Guard<'_>,
    ) -> Option<Result<Lookup, GatewayError>> {
        let path = parts.uri.path();
        if protocol == Protocol::Http && openai::is_call(path) {
            let is_post = parts.method == Method::POST;
            let refused = || GatewayError::MethodNotAllowed { allowed: "POST" };
            let found = is_post.then_some(Lookup::ByBody).ok_or_else(refused);
            return Some(guard.admit(self.opened).and(found));
        }
        if let Some(response) = local::answer(self, protocol, &parts.method, path, guard) {
            let admitted = if local::is_health(path) { Ok(()) } else { guard.admit(self.opened) };
            let response = admitted.and(response);
            return Some(response.map(|response| Lookup::Routed(Routed::Local(Box::new(response)))));
        }
        if protocol == Protocol::Grpc
            && let Some((V2_SERVICE, method)) = path.rsplit_once('/')
            && let Some(field) = NameField::of(method)
        {
            return Some(guard.admit(self.opened).map(|()| Lookup::ByMessage(field)));
        }
        let model = model_of_path(path)?;
        let found = self.matcher.by_model(&model, |route| guard.sees(route));
        Some(found.and_then(|found| self.to_service(parts, &found, guard)))
    }

    /// True for a liveness check of the server: V1's `/`, which load balancers use too. In a cluster, V2's live path
    /// without a service counts as well. On one machine that path is answered for all services instead.
    fn is_liveness(&self, method: &Method, path: &str) -> bool {
        let is_path = match self.matcher.scope() {
            Scope::Local => path == "/",
            Scope::Cluster => matches!(path, "/" | "/v2/health/live" | "/v2/health/live/"),
        };
        is_path && matches!(*method, Method::GET | Method::HEAD)
    }

    /// True for a gRPC path whose method the gateway does not have. The answer is "unimplemented", which some load
    /// balancers expect from a healthy server. In a cluster, V2's methods belong to services, so the error is about the
    /// unknown host instead.
    fn is_unknown_method(&self, path: &str) -> bool {
        let service = path.rsplit_once('/').map_or("", |(service, _)| service);
        // Below `/serving/` the service is unknown, not the method.
        let is_bare = service.rfind('/') == Some(0);
        is_bare && (self.matcher.scope() == Scope::Local || service != V2_SERVICE)
    }

    /// Routes a gRPC call by the model that `field` of its first message names. `count` runs with the error of a call
    /// that is not routed to a service.
    pub(crate) fn route_message(
        &self,
        parts: &Parts,
        field: NameField,
        body: &CheckedBody<'_>,
        count: impl Fn(&GatewayError),
    ) -> Result<Routed, GatewayError> {
        let CheckedBody { buffered, guard } = *body;
        let encoding = headers::text(&parts.headers, &headers::GRPC_ENCODING);
        let model = model_of_message(field, buffered, encoding)?;
        let error = match self.matcher.by_model(&model, |route| guard.sees(route)) {
            Ok(found) => return self.target(parts, &found, guard).inspect_err(count).map(Routed::Service),
            Err(error) => error,
        };
        count(&error);
        let error = guard.conceal(error);
        match local::grpc::unknown_model(parts.uri.path(), &model) {
            Some(answer) if matches!(error, GatewayError::NoRoute { .. }) => {
                answer.map(|response| Routed::Local(Box::new(response)))
            }
            Some(_) | None => Err(error),
        }
    }

    /// Routes a call of OpenAI's API by the model that its body names. `count` runs with the error of a call that is not
    /// routed to a service.
    pub(crate) fn route_body(
        &self,
        parts: &Parts,
        body: &CheckedBody<'_>,
        count: impl Fn(&GatewayError),
    ) -> Result<Routed, GatewayError> {
        let CheckedBody { buffered, guard } = *body;
        let model = openai::model_of(buffered, self.request_buffer);
        let found = model.and_then(|model| self.matcher.by_model(&model, |route| guard.sees(route)));
        let target = found.and_then(|found| self.target(parts, &found, guard));
        target.inspect_err(count).map(Routed::Service)
    }

    fn to_service(&self, parts: &Parts, found: &RouteMatch<'_>, guard: &Guard<'_>) -> Result<Lookup, GatewayError> {
        let target = self.target(parts, found, guard)?;
        Ok(Lookup::Routed(Routed::Service(target)))
    }

    /// Checks that the sender may use the service of a request, and chooses the revision.
    fn target(&self, parts: &Parts, found: &RouteMatch<'_>, guard: &Guard<'_>) -> Result<Target, GatewayError> {
        let found = &self.matcher.component(found, parts.uri.path());
        let choice = Choice { prefix: found.prefix, is_tagged: found.revision.is_some() };
        let is_component = |from| self.has_caller_at(&found.route.service, from);
        let operation = guard.check(parts, found.route, choice, is_component)?;
        control::check_path(found, parts.uri.path(), operation)?;
        let pin = headers::text(&parts.headers, &headers::REVISION);
        let tag = headers::text(&parts.headers, &headers::TAG);
        let next_sample = || self.next_sample(&found.route.service);
        let name = found.revision(pin, tag, next_sample)?;
        let queue = self.queues.get(name).ok_or_else(|| GatewayError::Gone(name.to_string()))?;
        Ok(Target {
            queue: Arc::clone(queue),
            route: Arc::clone(found.route),
            prefix: found.prefix,
            share: guard.share(),
            mirror: mirror::target(&self.mirrors, &self.queues, &parts.headers, found, name),
        })
    }
}

/// Returns the name in the first message of a body, empty if it has none. Only the first bytes of a compressed message
/// are searched.
fn model_of_message(field: NameField, buffered: &BufferedBody, encoding: Option<&str>) -> Result<String, GatewayError> {
    if let Some(message) = plain_message(ChunkReader::new(&buffered.chunks)) {
        return Ok(find_model_name(field, message).unwrap_or_default());
    }
    let head = buffered.head(PEEK_LIMIT);
    if let Some(name) = unknown_encoding(&head, encoding) {
        return Err(GatewayError::UnknownEncoding(name.to_owned()));
    }
    let message = first_message(&head, encoding, PEEK_LIMIT).unwrap_or_default();
    Ok(find_model_name(field, &*message).unwrap_or_default())
}

/// Returns the host to which a request is addressed: the host of its port if the port has one, otherwise the host that
/// the request names.
fn host(parts: &Parts) -> Option<&str> {
    if let Some(PortHost(host)) = parts.extensions.get() {
        return Some(host.as_str());
    }
    match parts.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers::text(&parts.headers, &header::HOST),
    }
}
