//! Serves HTTP/2 on one connection until the connection ends.

use std::pin::pin;
use std::sync::Arc;

use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use weir_serve::http2_limits::{CONNECTION_WINDOW, MAX_FRAME, MAX_STREAMS, STREAM_WINDOW};
use weir_serve::{BufferedSocket, Flushed, StreamExecutor, Traffic};

use super::rewind::Rewind;
use super::settings::{BoxError, ServerSettings};

/// Serves an HTTP/2 connection until it ends.
pub(super) async fn serve<I, S>(stream: Rewind<I>, service: S, traffic: &Arc<Traffic>, settings: &ServerSettings)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, Future: Send + Unpin + 'static, Error: Into<BoxError>>,
    S::ResBody: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let socket = BufferedSocket::http2(stream);
    let flusher = socket.flusher();
    let connection = builder(traffic.executor(&settings.streams)).serve_connection(TokioIo::new(socket), service);
    let connection = pin!(Flushed::new(connection, flusher));
    let ended = weir_serve::serve(
        connection,
        |connection| connection.connection().graceful_shutdown(),
        traffic,
        settings.lifetime(),
    );
    if let Err(error) = ended.await {
        tracing::debug!(%error, "connection ended");
    }
}

fn builder(streams: StreamExecutor) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .max_concurrent_streams(MAX_STREAMS);
    builder
}
