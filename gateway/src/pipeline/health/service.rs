//! `grpc.health.v1.Health` over a status that is asked for again and again.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

const UNKNOWN: &str = "unknown service: ask about \"inference.GRPCInferenceService\", or name none";

/// Time between two checks of a watched status; gateways publish reports as often.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Health service with the status that `status` returns for the name in a message. Once the gateway leaves, a status
/// `Serving` becomes `NotServing`, so that clients go to another gateway.
#[derive(Clone)]
pub(super) struct HealthService<S> {
    pub(super) status: S,
    /// Cancelled when the gateway leaves.
    pub(super) leaving: CancellationToken,
}

impl<S: Fn(&str) -> ServingStatus> HealthService<S> {
    fn status(&self, service: &str) -> ServingStatus {
        match (self.status)(service) {
            ServingStatus::Serving if self.leaving.is_cancelled() => ServingStatus::NotServing,
            status => status,
        }
    }

    /// Waits until the status differs from the last one. The waiting stream ends with the gateway.
    async fn changed(&self, service: &str, last: Option<ServingStatus>) -> ServingStatus {
        loop {
            let status = self.status(service);
            if last != Some(status) {
                return status;
            }
            let leaving = &self.leaving;
            tokio::select! {
                () = leaving.cancelled(), if !leaving.is_cancelled() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }
}

#[tonic::async_trait]
impl<S: Fn(&str) -> ServingStatus + Clone + Send + Sync + 'static> Health for HealthService<S> {
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
        let name = request.into_inner().service;
        let changes = stream::unfold((self.clone(), name, None), |(health, name, last)| async move {
            let status = health.changed(&name, last).await;
            Some((Ok(response(status)), (health, name, Some(status))))
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
