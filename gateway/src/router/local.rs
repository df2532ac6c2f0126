//! Answers calls to the server as a whole, if one address serves all services of one machine.

pub(super) mod grpc;
mod http;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

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

/// Reason that a model is down whose name is that of several services' models.
const SEVERAL: &str = "several services have this model: call one by its host or below its path";

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

/// Returns the models that are routed by name and that the sender may use, each with its health and, if it is down, the
/// reason. A model of several services is listed once; it is down, because a call by its name reaches none of them.
fn models(table: &RouteTable, guard: &Guard<'_>) -> Vec<(String, Health, Option<String>)> {
    let routes = table.routes.as_slice().iter().filter(|route| guard.sees(route));
    let mut models: Vec<(String, Health, Option<String>)> = Vec::new();
    let mut places = HashMap::new();
    for (model, route) in routes.filter_map(|route| Some((route.model.as_deref()?, route))) {
        match places.entry(model) {
            Entry::Vacant(entry) => {
                let reason = why_down(table, route);
                let health = if reason.is_none() { Health::Up } else { Health::Down };
                entry.insert(models.len());
                models.push((model.to_owned(), health, reason));
            }
            Entry::Occupied(entry) => {
                let (_, health, reason) = &mut models[*entry.get()];
                (*health, *reason) = (Health::Down, Some(SEVERAL.to_owned()));
            }
        }
    }
    models
}

/// Returns the models that are routed by name and whose servers may have OpenAI's API: all but those that are known to
/// lack it. No request is sent to the replicas, so that a list wakes no service.
fn openai_models(table: &RouteTable, guard: &Guard<'_>) -> Vec<String> {
    let routes = table.routes.as_slice().iter();
    let models = routes.filter(|route| guard.sees(route)).filter_map(|route| match route.openai {
        OpenAiApi::Undeclared | OpenAiApi::Supported => route.model.as_deref(),
        OpenAiApi::Absent => None,
    });
    let mut listed = HashSet::new();
    models.filter(|model| listed.insert(*model)).map(str::to_owned).collect()
}

/// Returns why the server is not ready; `None` if every declared or routed service is ready or stopped on purpose. A
/// service is named only to those who may use it.
fn why_not_ready(table: &RouteTable, guard: &Guard<'_>) -> Option<String> {
    if !are_routed(table) {
        return Some("not every declared service has a route yet".to_owned());
    }
    let routes = table.routes.as_slice().iter();
    let mut each = routes.filter(|route| !is_stopped(route));
    each.find_map(|route| {
        let reason = why_down(table, route)?;
        let is_seen = guard.sees(route);
        Some(if is_seen { format!("service {}: {reason}", route.service) } else { "a service is not ready".to_owned() })
    })
}

/// True for a service that its owner has stopped: it should serve no requests.
fn is_stopped(route: &Route) -> bool {
    match route.destination {
        Destination::Nowhere(_) => true,
        Destination::Split(_) => false,
    }
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
