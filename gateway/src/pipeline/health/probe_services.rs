//! gRPC's health and reflection services for the gateway itself. They answer calls whose host names no service, as load
//! balancers send them.

use http::Response;
use http::request::Parts;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use weir_protocol::grpc::add_reflection;
use weir_serve::{TimedBody, Upload};

use super::grpc_call;
use super::service::HealthService;
use crate::body::DownstreamBody;

/// Service names that clients may ask about: none for the server as a whole, or the V2 service.
const NAMES: [&str; 2] = ["", "inference.GRPCInferenceService"];

/// gRPC's health and reflection services.
#[derive(Clone)]
pub(crate) struct ProbeServices {
    routes: Routes,
    shutdown: CancellationToken,
}

impl ProbeServices {
    /// Creates services that report as serving until `leaving`, and whose streams end with `shutdown`.
    pub(crate) fn new(leaving: CancellationToken, shutdown: CancellationToken) -> Self {
        let mut routes = Routes::builder();
        routes.add_service(HealthServer::new(HealthService { status, leaving }));
        add_reflection(&mut routes);
        let routes = routes.routes().prepare();
        Self { routes, shutdown }
    }

    /// Answers a call. Streams end when the gateway shuts down.
    pub(crate) async fn answer(&self, parts: &Parts, body: Incoming, upload: Upload) -> Response<DownstreamBody> {
        let body = TimedBody::messages(body, upload);
        let request = grpc_call::request(parts, parts.uri.clone(), body);
        grpc_call::answer(self.routes.clone(), request, self.shutdown.clone()).await
    }
}

/// Returns the status of the gateway itself, which serves until it leaves. Clients that choose among gateways watch it.
fn status(service: &str) -> ServingStatus {
    if NAMES.contains(&service) { ServingStatus::Serving } else { ServingStatus::ServiceUnknown }
}
