//! Answers `grpc.health.v1.Health` for a service at once, like ready calls: it takes no credit and wakes no revision.
//! If a watch were forwarded to a replica, it would hold a credit for as long as the client keeps it open.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use http::Uri;
use http::request::Parts;
use hyper::body::Incoming;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use weir_serve::TimedBody;

use super::grpc_call;
use crate::body::DownstreamBody;
use crate::context::Context;
use crate::wire::protocol::Protocol;

/// Paths of the calls, as a server sees them.
const CALLS: [&str; 2] = ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"];

/// Time between two checks of a watched service; gateways publish reports as often.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the path of a health call, without its first `prefix` bytes; `None` for any other request.
pub(crate) fn path_of_call(protocol: Protocol, parts: &Parts, prefix: usize) -> Option<&'static str> {
    let path = match protocol {
        Protocol::Grpc => parts.uri.path().get(prefix..)?,
        Protocol::Http => return None,
    };
    CALLS.into_iter().find(|call| *call == path)
}

/// Answers a health call for the service to which the request's head leads.
pub(crate) async fn answer(
    context: &Arc<Context>,
    path: &'static str,
    parts: &Parts,
    body: Incoming,
) -> http::Response<DownstreamBody> {
    let health = ServiceHealth { context: Arc::clone(context), head: Arc::new(parts.clone()) };
    // The request is a single message. Unlike the next message of a stream, it is expected at once.
    let body = TimedBody::whole(body, context.options.connections.upload());
    let request = grpc_call::request(parts, Uri::from_static(path), body);
    let shutdown = context.shutdown.clone();
    grpc_call::answer(HealthServer::new(health), request, shutdown).await
}

/// Health of one service. The name in the message is ignored, as in Triton and the runtime: the call asks about the
/// service to which it was sent.
#[derive(Clone)]
struct ServiceHealth {
    context: Arc<Context>,
    /// Request head that leads to the service, also after a rollout.
    head: Arc<Parts>,
}

impl ServiceHealth {
    /// Returns the current status. Once the gateway leaves, the status is `NotServing`, so that clients go to another
    /// gateway.
    fn status(&self) -> ServingStatus {
        let serves = || self.context.state.load().routes.would_serve(&self.head);
        if !self.context.leaving.is_cancelled() && serves() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        }
    }

    /// Waits until the status differs from the last one. The waiting stream ends with the gateway.
    async fn changed(&self, last: Option<ServingStatus>) -> ServingStatus {
        loop {
            let status = self.status();
            if last != Some(status) {
                return status;
            }
            let leaving = &self.context.leaving;
            tokio::select! {
                () = leaving.cancelled(), if !leaving.is_cancelled() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }
}

#[tonic::async_trait]
impl Health for ServiceHealth {
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(response(self.status())))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let changes = stream::unfold((self.clone(), None), |(health, last)| async move {
            let status = health.changed(last).await;
            Some((Ok(response(status)), (health, Some(status))))
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_health_calls_below_the_prefix_are_recognized() {
        let found = |protocol, path: &str, prefix| {
            let parts = http::Request::post(path).body(()).unwrap().into_parts().0;
            path_of_call(protocol, &parts, prefix)
        };
        let check = "/grpc.health.v1.Health/Check";
        let below = "/serving/default/digits/grpc.health.v1.Health/Watch";
        assert_eq!(found(Protocol::Grpc, check, 0), Some(check));
        assert_eq!(found(Protocol::Grpc, below, 23), Some(CALLS[1]));
        assert_eq!(found(Protocol::Grpc, below, 0), None);
        assert_eq!(found(Protocol::Http, check, 0), None);
        assert_eq!(found(Protocol::Grpc, "/grpc.health.v1.Health/List", 0), None);
    }
}
