//! HTTP/2 on one connection, until it ends.

use std::pin::pin;
use std::sync::Arc;

use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use weir_ops::socket::{self, Bulk, Flushed, Traffic};

use super::rewind::Rewind;
use super::settings::{BoxError, ServerSettings};
use super::streams::StreamExecutor;

/// A stream's window: a common image tensor (3 × 224 × 224 FP32 is 588 KiB) arrives in one go.
const STREAM_WINDOW: u32 = 1 << 20;

/// A connection's window: several such streams.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// A frame at most: a sixteenth of the work that frames of the common 16 KiB make, and what a connection may
/// be made to hold before it is known to be of use.
const FRAME: u32 = 256 << 10;

/// Most streams of one HTTP/2 connection; a client that wants more opens another.
const MAX_STREAMS: u32 = 1024;

/// Serves an HTTP/2 connection until it ends.
pub(super) async fn serve<I, S>(
    stream: Rewind<I>,
    service: S,
    traffic: &Arc<Traffic>,
    settings: &ServerSettings,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, Future: Send + Unpin + 'static, Error: Into<BoxError>>,
    S::ResBody: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let socket = Bulk::http2(stream);
    let outlet = socket.outlet();
    let connection =
        builder(settings.streams.clone()).serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(Flushed::new(connection, outlet));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = settings.stop.cancelled() => {
            connection.as_mut().connection().graceful_shutdown();
            socket::close(connection, traffic).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

fn builder(streams: StreamExecutor) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_concurrent_streams(MAX_STREAMS);
    builder
}
