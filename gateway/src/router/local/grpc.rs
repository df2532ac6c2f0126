//! The gRPC calls that the gateway answers itself: live, ready, metadata and index of all services.

use http::Response;
use weir_protocol::grpc::proto;
use weir_protocol::grpc::proto::repository_index_response::ModelIndex;
use weir_protocol::is_control;
use weir_protocol::rest::Health;

use super::{EXTENSIONS, NAME, RouteTable, models, state_label, why_not_ready};
use crate::access::Guard;
use crate::body::DownstreamBody;
use crate::codec::grpc::message;
use crate::error::GatewayError;

const SERVICE: &str = "/inference.GRPCInferenceService/";

pub(super) fn answer(
    table: &RouteTable,
    path: &str,
    guard: &Guard<'_>,
) -> Option<Result<Response<DownstreamBody>, GatewayError>> {
    let rpc = path.strip_prefix(SERVICE)?;
    let response = match rpc {
        "ServerLive" => message(&proto::ServerLiveResponse { live: true }),
        "ServerReady" => message(&proto::ServerReadyResponse { ready: why_not_ready(table, guard).is_none() }),
        "ServerMetadata" => message(&proto::ServerMetadataResponse {
            name: NAME.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: EXTENSIONS.iter().map(|&name| name.to_owned()).collect(),
        }),
        "RepositoryIndex" => message(&index(table, guard)),
        _ if is_control(path) => {
            return Some(Err(GatewayError::OneRuntime(rpc.to_owned())));
        }
        _ => return None,
    };
    Some(Ok(response))
}

/// Answers a call whose message names no known model, if the method has a regular answer for that; otherwise `None`.
pub(crate) fn unknown_model(path: &str, model: &str) -> Option<Result<Response<DownstreamBody>, GatewayError>> {
    match path.strip_prefix(SERVICE)? {
        "ModelReady" => Some(Ok(message(&proto::ModelReadyResponse { ready: false }))),
        "ModelStatistics" if model.is_empty() => {
            let call = "ModelStatistics of all models".to_owned();
            Some(Err(GatewayError::OneRuntime(call)))
        }
        _ => None,
    }
}

fn index(table: &RouteTable, guard: &Guard<'_>) -> proto::RepositoryIndexResponse {
    let entry = |(name, health, reason): (String, Health, Option<String>)| ModelIndex {
        name,
        version: String::new(),
        state: state_label(health),
        reason: reason.unwrap_or_default(),
    };
    proto::RepositoryIndexResponse { models: models(table, guard).into_iter().map(entry).collect() }
}
