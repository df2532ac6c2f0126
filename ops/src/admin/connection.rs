//! One connection to the admin port.

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
use crate::socket::{HeldPlace, HttpConnections, ReservedPlaces, Stream};

/// What the port's connections share.
#[derive(Clone)]
pub(super) struct Connections {
    service: NormalizePath<Router>,
    access: Access,
    /// Beginnings of the paths of services, whose connections have places of their own.
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

    /// Serves one connection until it ends, or soon after the port closes.
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

    /// Moves the connection of a service's client to a place of its own; false if there is none left.
    fn has_place(&self, request: &Request, place: &HeldPlace, peer: Option<IpAddr>) -> bool {
        let path = request.uri().path();
        let is_service = self.services.iter().any(|begin| path.starts_with(begin));
        // One that has left needs none.
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

/// The response to a client of a service that has too many connections, or where all of them together have.
fn no_place() -> Response {
    let text = "too many clients watch: try again later\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}
