//! The HTTP calls that the gateway answers itself: live, ready, metadata, list and index of all services.

use http::{Method, Response};
use weir_protocol::rest::{self, Health, IndexEntry, ServerMetadata};
use weir_protocol::{Code, is_control};

use super::{EXTENSIONS, NAME, RouteTable, models, openai_models, state_label, why_not_ready};
use crate::access::Guard;
use crate::body::DownstreamBody;
use crate::codec::http::json;
use crate::error::GatewayError;

pub(super) fn answer(
    table: &RouteTable,
    method: &Method,
    path: &str,
    guard: &Guard<'_>,
) -> Option<Result<Response<DownstreamBody>, GatewayError>> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_read = method == Method::GET || method == Method::HEAD;
    let response = match path {
        "/v2/health/live" if is_read => json(rest::live(Health::Up)),
        "/v2/health/ready" if is_read => ready(table, guard),
        "/v2" if is_read => json(rest::server_metadata(&ServerMetadata {
            name: NAME,
            version: env!("CARGO_PKG_VERSION"),
            extensions: EXTENSIONS,
        })),
        "/v2/models" if is_read => json(rest::model_list(&names(table, guard))),
        "/v1/models" | "/openai/v1/models" if is_read => {
            json(rest::openai_model_list(&names(table, guard), &openai_models(table, guard)))
        }
        "/v2/repository/index" if method == Method::POST => json(rest::repository_index(&index(table, guard))),
        "/v2/health/live" | "/v2/health/ready" | "/v2" | "/v2/models" | "/v1/models" | "/openai/v1/models" => {
            return Some(Err(not_allowed("GET, HEAD")));
        }
        "/v2/repository/index" => return Some(Err(not_allowed("POST"))),
        _ if is_control(path) || is_openai(path) => {
            return Some(Err(GatewayError::OneRuntime(path.to_owned())));
        }
        _ => return None,
    };
    Some(Ok(response))
}

/// True for a path below `/openai` that names no model in its body.
fn is_openai(path: &str) -> bool {
    path.starts_with("/openai/")
}

fn not_allowed(allowed: &'static str) -> GatewayError {
    GatewayError::MethodNotAllowed { allowed }
}

fn ready(table: &RouteTable, guard: &Guard<'_>) -> Response<DownstreamBody> {
    let Some(reason) = why_not_ready(table, guard) else {
        return json(rest::ready(Health::Up));
    };
    let mut response = json(rest::not_ready(None, &reason));
    *response.status_mut() = Code::Unavailable.http();
    response
}

fn names(table: &RouteTable, guard: &Guard<'_>) -> Vec<String> {
    models(table, guard).into_iter().map(|(name, _, _)| name).collect()
}

fn index(table: &RouteTable, guard: &Guard<'_>) -> Vec<IndexEntry> {
    let entry = |(name, health, reason)| IndexEntry { name, version: None, state: Some(state_label(health)), reason };
    models(table, guard).into_iter().map(entry).collect()
}
