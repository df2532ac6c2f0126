//! gRPC's health and reflection services for the gateway itself, where a call names no service by its host: a load
//! balancer asks there.

mod health;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::codegen::Service;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use weir_ops::socket::{TimedBody, Upload};
use weir_protocol::Code;
use weir_protocol::grpc::proto::FILE_DESCRIPTOR_SET;

use crate::body::DownstreamBody;
use crate::codec::grpc;
use health::GatewayHealth;

/// Packages of these services.
const PREFIXES: [&str; 2] = ["/grpc.health.v1.Health/", "/grpc.reflection."];

/// gRPC's health and reflection services.
#[derive(Clone)]
pub(crate) struct ProbeServices {
    routes: Routes,
    shutdown: CancellationToken,
}

/// True for a call of these services.
pub(crate) fn is_probe(path: &str) -> bool {
    PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}

impl ProbeServices {
    /// Services that report as serving until `leaving`, and whose streams end with `shutdown`.
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

    /// Answers a call. Streams end with the gateway.
    pub(crate) async fn answer(
        &self,
        parts: &Parts,
        body: Incoming,
        upload: Upload,
    ) -> Response<DownstreamBody> {
        let mut request = Request::new(tonic::body::Body::new(TimedBody::messages(body, upload)));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = parts.uri.clone();
        *request.headers_mut() = parts.headers.clone();
        let mut routes = self.routes.clone();
        let answer: Result<_, Infallible> = routes.call(request).await;
        let Ok(response) = answer;
        response.map(|body| {
            DownstreamBody::Relayed(UnsyncBoxBody::new(UntilShutdown {
                body: Some(body),
                shutdown: Box::pin(self.shutdown.clone().cancelled_owned()),
            }))
        })
    }
}

/// Built from descriptors that the build made, so it only fails if those are broken; then the gateway does without.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// A stream that ends with the gateway.
struct UntilShutdown {
    /// `None` once it has ended.
    body: Option<tonic::body::Body>,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Body for UntilShutdown {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        if self.shutdown.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.body = None;
        let trailers = grpc::trailers(Code::Unavailable, "the gateway shuts down");
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}
