//! `grpc.health.v1.Health`. The service name in a request is ignored, as in Triton: health is that of the whole server.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::server::Server;

/// The health service, which reports the server's readiness.
pub(super) struct Readiness(pub(super) Arc<Server>);

/// Interval at which a watch checks readiness; an orchestrator's own probes are seconds apart.
const WATCH_PERIOD: Duration = Duration::from_millis(200);

#[tonic::async_trait]
impl Health for Readiness {
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(serving(&self.0)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let state = (Arc::clone(&self.0), None);
        let changes = stream::unfold(state, |(server, last)| async move {
            loop {
                let current = serving(&server);
                if last != Some(current.status) {
                    let status = current.status;
                    return Some((Ok(current), (server, Some(status))));
                }
                if !server.wait(WATCH_PERIOD).await {
                    return None;
                }
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

fn serving(server: &Server) -> HealthCheckResponse {
    let status = if server.ready() { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}
