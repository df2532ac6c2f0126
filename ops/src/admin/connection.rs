//! One connection to the admin port.

use std::time::Duration;

use axum::Router;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;
use tower_http::normalize_path::NormalizePath;

use crate::socket::Stream;

/// Time a connection has to send a request's head, its idle time before included: two common scrape
/// intervals (15 s), so that a scraper's kept connection survives between scrapes.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Time a connection has to finish once the server stops: a scrape takes milliseconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The largest request head hyper lets us ask for; a scrape's is a few hundred bytes.
const MAX_HEAD: u32 = 8192;

/// Streams of one HTTP/2 connection: a watch needs one.
const MAX_STREAMS: u32 = 16;

/// Interval of HTTP/2's keep-alive pings, and time to answer one: a watcher whose machine is gone would keep its
/// connection open otherwise.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Serves one connection until it ends, or soon after `stop`.
pub(super) async fn serve(stream: Stream, service: NormalizePath<Router>, stop: CancellationToken) {
    let service = TowerToHyperService::new(service);
    let has_request = CancellationToken::new();
    let service = service_fn(|request| {
        has_request.cancel();
        service.call(request)
    });
    let builder = builder();
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = first_request_timeout(&has_request) => return,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(STOP_TIMEOUT, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the admin port ended early");
    }
}

/// Returns if there was no request for too long since the connection began. Until its version is known
/// and its first request is there, hyper waits forever.
async fn first_request_timeout(has_request: &CancellationToken) {
    let request = has_request.cancelled();
    if tokio::time::timeout(HEADER_TIMEOUT, request).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
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
