//! One connection to the admin port.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;
use tower_http::normalize_path::NormalizePath;

use super::access::Access;
use crate::socket::{
    self, ConnectionLimits, HeldPlace, Lifetime, ReservedPlaces, Stream, StreamExecutor, TimedBody,
    Traffic,
};

/// The largest request head hyper lets us ask for; a scrape's is a few hundred bytes.
const MAX_HEAD: u32 = 8192;

/// Streams of one HTTP/2 connection where its owner sets no other number: a watch needs one.
pub(super) const MAX_STREAMS: u32 = 16;

/// Interval of HTTP/2's keep-alive pings, and time to answer one: a watcher whose machine is gone would keep its
/// connection open otherwise.
const PING_EVERY: Duration = Duration::from_secs(10);

/// What the port's connections share.
#[derive(Clone)]
pub(super) struct Connections {
    service: NormalizePath<Router>,
    access: Access,
    limits: ConnectionLimits,
    /// Beginnings of the paths of services, whose connections have places of their own.
    services: Arc<[&'static str]>,
    reserved: ReservedPlaces,
    max_streams: u32,
    streams: StreamExecutor,
    stop: CancellationToken,
}

impl Connections {
    pub(super) fn new(
        service: NormalizePath<Router>,
        access: Access,
        limits: ConnectionLimits,
        services: Vec<&'static str>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            service,
            access,
            services: services.into(),
            reserved: ReservedPlaces::new(&limits),
            limits,
            max_streams: MAX_STREAMS,
            streams: StreamExecutor::new(TaskTracker::new(), &limits),
            stop,
        }
    }

    /// Allows so many streams on a connection at once.
    pub(super) fn with_streams(mut self, streams: u32) -> Self {
        self.max_streams = streams;
        self
    }

    /// Serves one connection until it ends, or soon after the port closes.
    pub(super) async fn serve(self, stream: Stream) {
        let traffic = stream.traffic();
        let (own, seen) = (self.clone(), Arc::clone(&traffic));
        let (place, peer) = (stream.place(), stream.peer());
        let service = service_fn(move |request| {
            let (own, exchange) = (own.clone(), seen.begin());
            let has_place = own.has_place(&request, &place, peer);
            async move {
                let response = if has_place {
                    own.answer(request).await
                } else {
                    Ok(no_place())
                };
                response.map(|response| exchange.track(response))
            }
        });
        let builder = self.builder(&traffic);
        let connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let lifetime = Lifetime {
            idle: self.limits.idle,
            stop: &self.stop,
        };
        let ended = socket::serve(
            connection,
            auto::Connection::graceful_shutdown,
            &traffic,
            lifetime,
        );
        if let Err(error) = ended.await {
            tracing::debug!(%error, "a connection to the admin port ended early");
        }
    }

    /// Moves the connection of a service's client to a place of its own; false if there is none left.
    fn has_place(
        &self,
        request: &http::Request<Incoming>,
        place: &HeldPlace,
        peer: Option<IpAddr>,
    ) -> bool {
        let path = request.uri().path();
        let is_service = self.services.iter().any(|begin| path.starts_with(begin));
        // One that has left needs none.
        !is_service || peer.is_none_or(|peer| place.exchange(&self.reserved, peer))
    }

    async fn answer(&self, request: http::Request<Incoming>) -> Result<Response, Infallible> {
        let (parts, body) = request.into_parts();
        if let Some(refused) = self.access.refusal(&parts) {
            return Ok(refused);
        }
        let body = Body::new(TimedBody::whole(body, self.limits.upload()));
        self.service
            .clone()
            .call(http::Request::from_parts(parts, body))
            .await
    }

    fn builder(&self, traffic: &Traffic) -> auto::Builder<StreamExecutor> {
        let mut builder = auto::Builder::new(traffic.executor(&self.streams));
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle)
            .max_buf_size(MAX_HEAD as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEAD)
            .max_concurrent_streams(self.max_streams)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY);
        builder
    }
}

/// The response to a client of a service that has too many connections, or where all of them together have.
fn no_place() -> Response {
    let text = "too many clients watch: try again later\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}
