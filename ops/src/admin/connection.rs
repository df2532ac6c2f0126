//! Serves one connection to the admin port.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tower::Service;
use tower_http::normalize_path::NormalizePath;

use super::access::Access;
use weir_serve::{HeldPlace, HttpConnections, ReservedPlaces, Stream};

/// State that all connections to the port share.
#[derive(Clone)]
pub(super) struct Connections {
    service: NormalizePath<Router>,
    access: Access,
    /// Path prefixes of the services, whose connections are counted separately.
    services: Arc<[&'static str]>,
    reserved: ReservedPlaces,
    http: HttpConnections,
}

impl Connections {
    pub(super) fn new(
        service: NormalizePath<Router>,
        access: Access,
        services: Vec<&'static str>,
        reserved: ReservedPlaces,
        http: HttpConnections,
    ) -> Self {
        Self { service, access, services: services.into(), reserved, http }
    }

    /// Serves one connection until it ends, or until soon after the port closes.
    pub(super) async fn serve(self, stream: Stream) {
        let traffic = stream.traffic();
        let (place, peer) = (stream.place(), stream.peer());
        let answer = |request: Request| {
            let has_place = self.has_place(&request, &place, peer);
            let own = self.clone();
            async move {
                if !has_place {
                    return Ok(no_place());
                }
                own.answer(request).await
            }
        };
        if let Err(error) = self.http.serve(stream, &traffic, answer).await {
            tracing::debug!(%error, "a connection to the admin port ended early");
        }
    }

    /// Moves a connection that requests a service to the reserved places. Returns false if none is free.
    fn has_place(&self, request: &Request, place: &HeldPlace, peer: Option<IpAddr>) -> bool {
        let path = request.uri().path();
        let is_service = self.services.iter().any(|begin| path.starts_with(begin));
        // A client that has already disconnected needs no place.
        !is_service || peer.is_none_or(|peer| place.exchange(&self.reserved, peer))
    }

    async fn answer(mut self, request: Request) -> Result<Response, Infallible> {
        let (parts, body) = request.into_parts();
        if let Some(refused) = self.access.refusal(&parts) {
            return Ok(refused);
        }
        self.service.call(Request::from_parts(parts, body)).await
    }
}

/// Returns the response to a client that exceeds the limit on connections to services, its own or that of all clients.
fn no_place() -> Response {
    let text = "too many clients watch: try again later\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}
