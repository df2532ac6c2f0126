//! Calls to the server as a whole, where one machine's services are served under one address: the
//! gateway answers for all of them.

pub(crate) mod grpc;
mod http;

use std::collections::HashSet;

use ::http::{Method, Response};
use weir_cluster::{Destination, Route};
use weir_protocol::rest::Health;

use crate::body::DownstreamBody;
use crate::error::GatewayError;
use crate::protocol::Protocol;
use crate::state::State;

/// What it calls itself.
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

/// The answer, or the refusal of a call that only one runtime can answer; `None` for every other call.
pub(crate) fn answer(
    state: &State,
    protocol: Protocol,
    method: &Method,
    path: &str,
) -> Option<Result<Response<DownstreamBody>, GatewayError>> {
    match protocol {
        Protocol::Http => http::answer(state, method, path),
        Protocol::Grpc => grpc::answer(state, path),
    }
}

/// Whether requests to this service would be answered: each revision that has a share has a replica, or
/// sleeps and can be woken.
fn health(state: &State, route: &Route) -> Health {
    let is_serving = match &route.destination {
        Destination::Nowhere(_) => false,
        Destination::Split(split) => split.targets().iter().all(|target| {
            let queue = state.routes.queues.get(&target.revision);
            target.weight == 0 || queue.is_some_and(|queue| queue.is_serving())
        }),
    };
    match is_serving {
        true => Health::Up,
        false => Health::Down,
    }
}

/// The models that can be asked for by name, with their services' health and why it is bad.
fn models(state: &State) -> Vec<(String, Health, Option<String>)> {
    let routes = state.snapshot.routes.as_slice().iter();
    let named = routes.filter_map(|route| Some((route.model.as_deref()?, route)));
    named
        .map(|(model, route)| {
            let health = health(state, route);
            let reason = match health {
                Health::Up => None,
                Health::Down => reason(state, route),
            };
            (model.to_owned(), health, reason)
        })
        .collect()
}

fn reason(state: &State, route: &Route) -> Option<String> {
    if let Destination::Nowhere(because) = &route.destination {
        return Some(because.to_string());
    }
    let queues = route
        .revisions()
        .filter_map(|name| state.routes.queues.get(name));
    let mut failures = queues.filter_map(|queue| queue.failure());
    failures.next().map(|failure| failure.message.to_string())
}

/// Ready when every service is: each that is declared, and each that is routed to.
fn ready(state: &State) -> Health {
    let mut each = state.snapshot.routes.as_slice().iter();
    let are_ready = each.all(|route| health(state, route) == Health::Up);
    match are_routed(state) && are_ready {
        true => Health::Up,
        false => Health::Down,
    }
}

/// Whether every declared service is routed to. Where nobody knows which are, none can be said to be before
/// any is.
fn are_routed(state: &State) -> bool {
    let routes = &state.snapshot.routes;
    let Some(declared) = &state.declared else {
        return routes.generation > 0;
    };
    let routed: HashSet<_> = routes.as_slice().iter().map(|r| &r.service).collect();
    let declared = declared.borrow();
    declared.iter().all(|service| routed.contains(service))
}

/// The index's word for a health.
fn state_label(health: Health) -> String {
    match health {
        Health::Up => "READY",
        Health::Down => "UNAVAILABLE",
    }
    .to_owned()
}
