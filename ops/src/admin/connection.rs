//! One connection to the admin port.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;
use tower_http::normalize_path::NormalizePath;

use super::access::Access;
use crate::socket::{self, ConnectionLimits, Lifetime, Stream, StreamExecutor, TimedBody};

/// The largest request head hyper lets us ask for; a scrape's is a few hundred bytes.
const MAX_HEAD: u32 = 8192;

/// Streams of one HTTP/2 connection: a watch needs one.
const MAX_STREAMS: u32 = 16;

/// Interval of HTTP/2's keep-alive pings, and time to answer one: a watcher whose machine is gone would keep its
/// connection open otherwise.
const PING_EVERY: Duration = Duration::from_secs(10);

/// What the port's connections share.
#[derive(Clone)]
pub(super) struct Connections {
    service: NormalizePath<Router>,
    access: Access,
    limits: ConnectionLimits,
    streams: StreamExecutor,
    stop: CancellationToken,
}

impl Connections {
    pub(super) fn new(
        service: NormalizePath<Router>,
        access: Access,
        limits: ConnectionLimits,
        stop: CancellationToken,
    ) -> Self {
        Self {
            service,
            access,
            limits,
            streams: StreamExecutor::new(TaskTracker::new(), &limits),
            stop,
        }
    }

    /// Serves one connection until it ends, or soon after the port closes.
    pub(super) async fn serve(self, stream: Stream) {
        let traffic = stream.traffic();
        let (own, seen) = (self.clone(), Arc::clone(&traffic));
        let service = service_fn(move |request| {
            let (own, exchange) = (own.clone(), seen.begin());
            async move {
                own.answer(request)
                    .await
                    .map(|response| exchange.track(response))
            }
        });
        let builder = self.builder();
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

    fn builder(&self) -> auto::Builder<StreamExecutor> {
        let mut builder = auto::Builder::new(self.streams.clone());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle)
            .max_buf_size(MAX_HEAD as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEAD)
            .max_concurrent_streams(MAX_STREAMS)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY);
        builder
    }
}
