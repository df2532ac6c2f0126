//! HTTP/1.1 and HTTP/2 connections of ports for programs and operators: pages, metric scrapes, watches, admission
//! reviews.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{ConnectionLimits, FairSocket, Lifetime, StreamExecutor, TimedBody, Traffic, serve};

/// Maximum size of a request head in bytes, the smallest limit that hyper allows. The head of a scrape has a few
/// hundred bytes.
const MAX_HEAD: u32 = 8192;

/// Interval of HTTP/2's keep-alive pings, and the time to answer one. Without pings, the connection of a watcher whose
/// machine is gone would stay open.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Settings that all HTTP connections of a port share.
#[derive(Clone, Debug)]
pub struct HttpConnections {
    limits: ConnectionLimits,
    max_streams: u32,
    streams: StreamExecutor,
    stop: CancellationToken,
}

impl HttpConnections {
    /// Returns settings for connections of at most `max_streams` HTTP/2 streams each, until `stop`.
    #[must_use]
    pub fn new(limits: ConnectionLimits, max_streams: u32, stop: CancellationToken) -> Self {
        Self { limits, max_streams, streams: StreamExecutor::new(TaskTracker::new(), &limits), stop }
    }

    /// Returns the token that is cancelled when the port closes.
    #[must_use]
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Serves one connection until it ends, or until soon after the port closes. Reading the body of a request fails if
    /// the client stalls.
    ///
    /// # Errors
    /// Fails with the connection's error, which only concerns its client.
    pub async fn serve<I, A, F>(
        &self,
        io: I,
        traffic: &Arc<Traffic>,
        answer: A,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
    where
        I: AsyncRead + AsyncWrite + Unpin + 'static,
        A: Fn(Request<Body>) -> F,
        F: Future<Output = Result<Response, Infallible>> + Send + 'static,
    {
        let upload = self.limits.upload();
        let service = service_fn(|request: Request<Incoming>| {
            let exchange = traffic.begin();
            let body = |body| Body::new(TimedBody::whole(body, upload));
            let answered = answer(request.map(body));
            async move { answered.await.map(|response| exchange.track(response)) }
        });
        let builder = self.builder(traffic);
        let connection = pin!(builder.serve_connection(TokioIo::new(FairSocket::new(io)), service));
        let lifetime = Lifetime {
            idle: self.limits.idle,
            stop: &self.stop,
            // Clients repeat scrapes and watches, so no late request needs to be accepted.
            late_requests: Duration::ZERO,
        };
        let shut_down = auto::Connection::graceful_shutdown;
        serve(connection, shut_down, traffic, lifetime).await
    }

    fn builder(&self, traffic: &Traffic) -> auto::Builder<StreamExecutor> {
        let mut builder = auto::Builder::new(traffic.executor(&self.streams));
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.limits.idle).max_buf_size(MAX_HEAD as usize);
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
