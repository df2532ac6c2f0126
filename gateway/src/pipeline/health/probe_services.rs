//! gRPC's health and reflection services for the gateway itself. They answer calls whose host names no service, as load
//! balancers send them.

mod health;

use http::Response;
use http::request::Parts;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use weir_protocol::grpc::proto::FILE_DESCRIPTOR_SET;
use weir_serve::{TimedBody, Upload};

use super::grpc_call;
use crate::body::DownstreamBody;
use health::GatewayHealth;

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
        routes.add_service(HealthServer::new(GatewayHealth { leaving }));
        if let Ok(service) = reflection().build_v1() {
            routes.add_service(service);
        }
        if let Ok(service) = reflection().build_v1alpha() {
            routes.add_service(service);
        }
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

/// Returns the reflection service's builder. Building fails only if the descriptors from the build are broken; the
/// gateway then has no reflection.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
