//! `grpc.health.v1.Health` of the gateway itself, which serves until it leaves. Clients that choose among gateways
//! watch it.

use std::pin::Pin;

use futures_util::{Stream, StreamExt, future, stream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// Service names that clients may ask about: none for the server as a whole, or the V2 service.
const NAMES: [&str; 2] = ["", "inference.GRPCInferenceService"];

const UNKNOWN: &str = "unknown service: ask about \"inference.GRPCInferenceService\", or name none";

/// Health service of the gateway; `leaving` is cancelled when the gateway leaves.
pub(super) struct GatewayHealth {
    pub(super) leaving: CancellationToken,
}

impl GatewayHealth {
    fn status(&self, service: &str) -> ServingStatus {
        if !NAMES.contains(&service) {
            ServingStatus::ServiceUnknown
        } else if self.leaving.is_cancelled() {
            ServingStatus::NotServing
        } else {
            ServingStatus::Serving
        }
    }
}

#[tonic::async_trait]
impl Health for GatewayHealth {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let status = self.status(&request.get_ref().service);
        if status == ServingStatus::ServiceUnknown {
            return Err(Status::not_found(UNKNOWN));
        }
        Ok(Response::new(response(status)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Returns a stream that stays open until the client or the gateway ends it.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let reported = |status| Ok::<_, Status>(response(status));
        let status = self.status(&request.get_ref().service);
        let first = stream::once(future::ready(reported(status)));
        if status != ServingStatus::Serving {
            return Ok(Response::new(Box::pin(first.chain(stream::pending()))));
        }
        let leaving = self.leaving.clone();
        let last = stream::once(async move {
            leaving.cancelled().await;
            reported(ServingStatus::NotServing)
        });
        let changes = first.chain(last).chain(stream::pending());
        Ok(Response::new(Box::pin(changes)))
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
