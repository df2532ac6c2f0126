//! Answers calls to the server as a whole, where all services of one machine are served under one address.

pub(super) mod grpc;
mod http;

use std::collections::HashSet;

use ::http::{Method, Response};
use weir_cluster::{Destination, Route};
use weir_protocol::rest::Health;

use super::RouteTable;
use crate::body::DownstreamBody;
use crate::error::GatewayError;
use crate::protocol::Protocol;

/// Server name in the metadata.
const NAME: &str = "weir";

/// What can be asked for here: what is asked of one model goes to its runtime, and ours does all of this.
/// Shared memory, tracing and logging are of one process.
const EXTENSIONS: &[&str] = &[
    "classification",
    "model_repository",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
];

/// Answers a call to the server as a whole, or refuses one that needs one service; `None` for other calls.
pub(crate) fn answer(
    table: &RouteTable,
    protocol: Protocol,
    method: &Method,
    path: &str,
) -> Option<Result<Response<DownstreamBody>, GatewayError>> {
    match protocol {
        Protocol::Http => http::answer(table, method, path),
        Protocol::Grpc => grpc::answer(table, path),
    }
}

/// Health of a service: up if each revision with a weight has a replica, or can start one on demand.
fn health(table: &RouteTable, route: &Route) -> Health {
    let is_serving = match &route.destination {
        Destination::Nowhere(_) => false,
        Destination::Split(split) => split.targets().iter().all(|target| {
            let queue = table.queues.get(&target.revision);
            target.weight == 0 || queue.is_some_and(|queue| queue.is_serving())
        }),
    };
    health_if(is_serving)
}

/// The models that are routed by name, with their services' health and its reason if it is down.
fn models(table: &RouteTable) -> Vec<(String, Health, Option<String>)> {
    let routes = table.routes.as_slice().iter();
    let named = routes.filter_map(|route| Some((route.model.as_deref()?, route)));
    named
        .map(|(model, route)| {
            let health = health(table, route);
            let reason = match health {
                Health::Up => None,
                Health::Down => reason(table, route),
            };
            (model.to_owned(), health, reason)
        })
        .collect()
}

fn reason(table: &RouteTable, route: &Route) -> Option<String> {
    if let Destination::Nowhere(because) = &route.destination {
        return Some(because.to_string());
    }
    let queues = route.revisions().filter_map(|name| table.queues.get(name));
    let mut failures = queues.filter_map(|queue| queue.failure());
    failures.next().map(|failure| failure.message.to_string())
}

/// Health of the server: up when every declared or routed service is.
fn ready(table: &RouteTable) -> Health {
    let mut each = table.routes.as_slice().iter();
    let are_ready = each.all(|route| health(table, route) == Health::Up);
    health_if(are_routed(table) && are_ready)
}

/// True if every declared service has a route. Where the declared services are unknown: if there are routes.
fn are_routed(table: &RouteTable) -> bool {
    let routes = &table.routes;
    let Some(declared) = &table.declared else {
        return routes.generation > 0;
    };
    let routed: HashSet<_> = routes.as_slice().iter().map(|r| &r.service).collect();
    let declared = declared.borrow();
    declared.iter().all(|service| routed.contains(service))
}

/// The repository index's name for a health.
fn state_label(health: Health) -> String {
    match health {
        Health::Up => "READY",
        Health::Down => "UNAVAILABLE",
    }
    .to_owned()
}

fn health_if(is_up: bool) -> Health {
    if is_up { Health::Up } else { Health::Down }
}
