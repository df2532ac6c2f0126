//! Answers calls to the server as a whole, if one address serves all services of one machine.

pub(super) mod grpc;
mod http;

use std::collections::HashSet;

use ::http::{Method, Response};
use weir_cluster::{Destination, OpenAiApi, Route};
use weir_protocol::rest::Health;

use super::RouteTable;
use crate::access::Guard;
use crate::body::DownstreamBody;
use crate::error::GatewayError;
use crate::wire::protocol::Protocol;

/// Server name in the metadata.
const NAME: &str = "weir";

/// Extensions in the server metadata. Calls for one model go to its runtime, and `weir-runtime` supports all of these.
/// Shared memory, tracing and logging are left out, because they belong to one process.
const EXTENSIONS: &[&str] = &[
    "classification",
    "model_repository",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
];

/// Answers a call to the server as a whole, or refuses a call that needs a single service; `None` for other calls.
pub(crate) fn answer(
    table: &RouteTable,
    protocol: Protocol,
    method: &Method,
    path: &str,
    guard: &Guard<'_>,
) -> Option<Result<Response<DownstreamBody>, GatewayError>> {
    match protocol {
        Protocol::Http => http::answer(table, method, path, guard),
        Protocol::Grpc => grpc::answer(table, path, guard),
    }
}

/// Returns true for the health of the server as a whole, which needs no key.
pub(super) fn is_health(path: &str) -> bool {
    const CALLS: [&str; 4] = [
        "/v2/health/live",
        "/v2/health/ready",
        "/inference.GRPCInferenceService/ServerLive",
        "/inference.GRPCInferenceService/ServerReady",
    ];
    CALLS.contains(&path.strip_suffix('/').unwrap_or(path))
}

/// Returns why a service does not serve; `None` if each revision with a weight has a replica or can start one on
/// demand.
fn why_down(table: &RouteTable, route: &Route) -> Option<String> {
    let split = match &route.destination {
        Destination::Nowhere(because) => return Some(because.to_string()),
        Destination::Split(split) => split,
    };
    let targets = split.targets().iter().filter(|target| target.weight > 0);
    let mut reasons = targets.filter_map(|target| match table.queues.get(&target.revision) {
        Some(queue) => queue.readiness().why_down(),
        None => Some(format!("revision {} was removed", target.revision)),
    });
    reasons.next()
}

/// Returns the models that are routed by name and that the sender may use, each with its service's health and, if the
/// service is down, the reason.
fn models(table: &RouteTable, guard: &Guard<'_>) -> Vec<(String, Health, Option<String>)> {
    let routes = table.routes.as_slice().iter();
    let named = routes.filter(|route| guard.sees(route)).filter_map(|route| Some((route.model.as_deref()?, route)));
    named
        .map(|(model, route)| {
            let reason = why_down(table, route);
            let health = match reason {
                None => Health::Up,
                Some(_) => Health::Down,
            };
            (model.to_owned(), health, reason)
        })
        .collect()
}

/// Returns the models that are routed by name and whose servers may have OpenAI's API: all but those that are known to
/// lack it. No request is sent to the replicas, so that a list wakes no service.
fn openai_models(table: &RouteTable, guard: &Guard<'_>) -> Vec<String> {
    let routes = table.routes.as_slice().iter();
    let models = routes.filter(|route| guard.sees(route)).filter_map(|route| match route.openai {
        OpenAiApi::Undeclared | OpenAiApi::Supported => route.model.as_deref(),
        OpenAiApi::Absent => None,
    });
    models.map(str::to_owned).collect()
}

/// Returns why the server is not ready; `None` if every declared or routed service is ready. A service is named only to
/// those who may use it.
fn why_not_ready(table: &RouteTable, guard: &Guard<'_>) -> Option<String> {
    if !are_routed(table) {
        return Some("not every declared service has a route yet".to_owned());
    }
    let mut each = table.routes.as_slice().iter();
    each.find_map(|route| {
        let reason = why_down(table, route)?;
        let is_seen = guard.sees(route);
        Some(if is_seen { format!("service {}: {reason}", route.service) } else { "a service is not ready".to_owned() })
    })
}

/// True if every declared service has a route or, if the declared services are unknown, once any routes are known.
fn are_routed(table: &RouteTable) -> bool {
    let routes = &table.routes;
    let Some(declared) = &table.declared else {
        return routes.generation > 0;
    };
    let routed: HashSet<_> = routes.as_slice().iter().map(|r| &r.service).collect();
    let declared = declared.borrow();
    declared.iter().all(|service| routed.contains(service))
}

/// Returns the repository index's word for a health.
fn state_label(health: Health) -> String {
    match health {
        Health::Up => "READY",
        Health::Down => "UNAVAILABLE",
    }
    .to_owned()
}
