//! Serves one connection to the admin port.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use hyper::body::Incoming;
use tower::Service;
use tower_http::normalize_path::NormalizePath;

use super::access::Access;
use weir_serve::{ConnectionPlace, HttpPort, ReservedPlaces, Stream, TimedBody};

/// State that all connections to the port share.
#[derive(Clone)]
pub(super) struct Connections {
    service: NormalizePath<Router>,
    access: Access,
    /// Path prefixes of the services, whose connections are counted separately.
    services: Arc<[&'static str]>,
    reserved: ReservedPlaces,
    port: HttpPort,
}

impl Connections {
    pub(super) fn new(
        service: NormalizePath<Router>,
        access: Access,
        services: Vec<&'static str>,
        reserved: ReservedPlaces,
        port: HttpPort,
    ) -> Self {
        Self { service, access, services: services.into(), reserved, port }
    }

    /// Serves one connection until it ends, or until soon after the port closes.
    pub(super) async fn serve(self, stream: Stream) {
        let traffic = stream.traffic();
        let (place, peer) = (stream.place(), stream.peer());
        let answer = |request: http::Request<TimedBody<Incoming>>| {
            let has_place = self.has_place(request.uri().path(), &place, peer);
            let own = self.clone();
            async move { if has_place { own.answer(request.map(Body::new), peer).await } else { no_place() } }
        };
        self.port.serve_timed(stream, answer, &traffic).await;
    }

    /// Exchanges the connection's place for one reserved for services, if the request is for a service. Returns false
    /// if no reserved place is left for this client.
    fn has_place(&self, path: &str, place: &ConnectionPlace, peer: Option<IpAddr>) -> bool {
        let is_service = self.services.iter().any(|begin| path.starts_with(begin));
        // A client that has already disconnected needs no place.
        !is_service || peer.is_none_or(|peer| place.exchange(&self.reserved, peer))
    }

    async fn answer(mut self, request: Request, from: Option<IpAddr>) -> Response {
        let (parts, body) = request.into_parts();
        if let Some(refused) = self.access.refusal(&parts, from) {
            return refused;
        }
        let Ok(response) = self.service.call(Request::from_parts(parts, body)).await;
        response
    }
}

/// Returns the response to a client for which no reserved place is left, by the limit per client or by the limit on all
/// service connections.
fn no_place() -> Response {
    let text = "too many clients watch: try again later\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}
