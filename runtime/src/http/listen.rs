//! Accepts connections, limits their number, and closes them without losing an accepted request.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_serve::http2_limits::{MAX_REPLICA_HEAD, MAX_STREAMS};
use weir_serve::{Acceptor, FairSocket, LATE_REQUESTS, Lifetime, Stream, StreamExecutor};

use super::Http;

/// Serves until `stop` is cancelled. Then finishes the requests in flight and those still arriving, and returns. Idle
/// connections close at once, and those that have not sent a whole request within a few seconds close too.
pub(crate) async fn serve(listener: TcpListener, http: Arc<Http>, stop: CancellationToken) {
    let limits = http.options.connections;
    let streams = StreamExecutor::new(TaskTracker::new(), &limits);
    let acceptor = Acceptor::new(listener, limits, stop.clone());
    let serve = |stream| serve_connection(stream, Arc::clone(&http), streams.clone(), stop.clone());
    acceptor.serve(serve).await;
}

async fn serve_connection(stream: Stream, http: Arc<Http>, streams: StreamExecutor, stop: CancellationToken) {
    let idle = http.options.connections.idle;
    let traffic = stream.traffic();
    let seen = Arc::clone(&traffic);
    let service = service_fn(move |request| {
        let (http, exchange) = (Arc::clone(&http), seen.begin());
        let answer = http.answer(request);
        answer.map(|response| Ok::<_, Infallible>(exchange.track(response)))
    });
    let mut builder = auto::Builder::new(traffic.executor(&streams));
    builder.http1().max_buf_size(READ_AT_ONCE).timer(TokioTimer::new()).header_read_timeout(idle);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(MAX_REPLICA_HEAD).max_concurrent_streams(MAX_STREAMS);
    let connection = pin!(builder.serve_connection(TokioIo::new(FairSocket::new(stream)), service));
    let lifetime = Lifetime { idle, stop: &stop, late_requests: LATE_REQUESTS };
    let shut_down = auto::Connection::graceful_shutdown;
    let ended = weir_serve::serve(connection, shut_down, &traffic, lifetime);
    if let Err(error) = ended.await {
        tracing::debug!(%error, "connection ended");
    }
}

/// Size of a connection's read buffer, and so the longest head of a request. Bodies are collected elsewhere, and a
/// small read stays in the processor's cache. hyper's default of 400 KiB takes as much memory as the body with an
/// image.
const READ_AT_ONCE: usize = 64 << 10;
