//! HTTP/2 on one connection, until it ends.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::BoxError;
use super::rewind::Rewind;
use crate::bounds::http2_limits::Http2Limits;
use crate::http_port::HttpPort;
use crate::http2::buffered::{BufferedSocket, Flushed};
use crate::http2::streams::StreamExecutor;
use crate::lifetime;
use crate::traffic::Traffic;

/// Serves an HTTP/2 connection until it ends.
pub(super) async fn serve<I, S>(stream: Rewind<I>, service: S, traffic: &Arc<Traffic>, port: &HttpPort)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, Future: Send + 'static, Error: Into<BoxError>>,
    S::ResBody: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let limits = &port.options().http2;
    let socket = BufferedSocket::http2(stream);
    let flusher = socket.flusher();
    let builder = builder(traffic.executor(port.streams()), limits);
    let mut connection = pin!(Flushed::new(builder.serve_connection(TokioIo::new(socket), service), flusher));
    let ended = tokio::select! {
        ended = lifetime::serve(connection.as_mut(), |it| it.connection().graceful_shutdown(), traffic, port.lifetime()) => ended,
        grace = limits.old() => {
            connection.as_mut().connection().graceful_shutdown();
            // hyper's graceful shutdown waits until the client acknowledges a ping, which a client without open
            // requests may never do. `lifetime::close` gives up on such a client; `grace` limits the time for open
            // requests.
            tokio::select! {
                ended = lifetime::close(connection, traffic) => ended,
                () = sleep_or_forever(grace) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

impl Http2Limits {
    /// Waits until a new connection reaches its age limit, forever if there is none. Returns the time that its open
    /// requests have from then on; `None` means no limit.
    async fn old(&self) -> Option<Duration> {
        sleep_or_forever(self.age.map(|age| age.limit)).await;
        self.age.and_then(|age| age.grace)
    }
}

/// Sleeps for this time; forever if it is `None`.
async fn sleep_or_forever(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

fn builder(streams: StreamExecutor, limits: &Http2Limits) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(limits.stream_window)
        .initial_connection_window_size(limits.connection_window)
        .max_frame_size(limits.max_frame)
        .max_header_list_size(limits.max_head)
        .max_concurrent_streams(limits.max_streams);
    if let Some(ping) = limits.ping {
        builder.keep_alive_interval(ping.every).keep_alive_timeout(ping.answered_within);
    }
    builder
}
