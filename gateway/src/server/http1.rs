//! Serves HTTP/1.1 on one connection until the connection ends or becomes idle.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::{Builder, Connection};
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use weir_serve::{LATE_REQUESTS, Traffic};

use super::idle::{IDLE_AFTER, IdleTimer};
use super::rewind::Rewind;
use super::settings::{BoxError, ServerSettings};

/// An HTTP/1.1 connection between two requests.
pub(super) struct Http1Connection<I, S> {
    pub(super) stream: Rewind<I>,
    pub(super) service: S,
    /// Time by which the next request's head must be complete.
    pub(super) deadline: Instant,
}

/// Longest request head in bytes, the same as in the runtime.
pub(super) const MAX_HEAD: usize = 64 << 10;

/// Most bytes that hyper reads at once. A body of 64 KiB arrives together with its head as one piece: a second read and
/// a second piece would cost a tenth of the time of such a request. Larger bodies are assembled by the gateway's
/// buffer.
const READ_AT_ONCE: usize = 128 << 10;

/// Event after which hyper's connection is no longer polled.
enum ConnectionEvent {
    /// The connection ended, perhaps with an error.
    Ended(hyper::Result<()>),
    /// No request was open for [`IDLE_AFTER`].
    Idle,
    /// The port shuts down.
    Shutdown,
}

/// Serves a connection whose next request has begun. Returns the connection once it is idle; `None` if it ended.
pub(super) async fn serve<I, S>(
    connection: Http1Connection<I, S>,
    traffic: &Arc<Traffic>,
    settings: &ServerSettings,
) -> Option<Http1Connection<I, S>>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, Future: Unpin, Error: Into<BoxError>>,
    S::ResBody: Body<Error: Into<BoxError>> + 'static,
{
    let idle = IdleTimer::new(connection.deadline);
    let mut connection = Builder::new()
        .timer(idle.clone())
        .max_header_size(MAX_HEAD)
        .max_buf_size(READ_AT_ONCE)
        .header_read_timeout(settings.header_timeout)
        .serve_connection(TokioIo::new(connection.stream), connection.service);
    let event = tokio::select! {
        event = until_idle(&mut connection, &idle, traffic) => event,
        () = weir_serve::closed(&settings.stop, LATE_REQUESTS) => ConnectionEvent::Shutdown,
    };
    let ended = match event {
        ConnectionEvent::Idle => return Some(release(connection, settings)),
        ConnectionEvent::Ended(ended) => ended,
        ConnectionEvent::Shutdown => {
            Pin::new(&mut connection).graceful_shutdown();
            weir_serve::close(connection, traffic).await
        }
    };
    match ended {
        Err(error) if error.is_parse() => settings.log_refusal("malformed_head", &error),
        Err(error) => tracing::debug!(%error, "connection ended"),
        Ok(()) => {}
    }
    None
}

async fn until_idle<I, S>(
    connection: &mut Connection<TokioIo<Rewind<I>>, S>,
    idle: &IdleTimer,
    traffic: &Traffic,
) -> ConnectionEvent
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, Future: Unpin, Error: Into<BoxError>>,
    S::ResBody: Body<Error: Into<BoxError>> + 'static,
{
    poll_fn(|context| match Pin::new(&mut *connection).poll(context) {
        Poll::Ready(ended) => Poll::Ready(ConnectionEvent::Ended(ended)),
        // A client that has not read its whole response is not idle.
        Poll::Pending if idle.is_idle() && !traffic.is_blocked() => Poll::Ready(ConnectionEvent::Idle),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Frees hyper's state of an idle connection and keeps its socket.
fn release<I, S>(connection: Connection<TokioIo<Rewind<I>>, S>, settings: &ServerSettings) -> Http1Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, Error: Into<BoxError>>,
    S::ResBody: Body<Error: Into<BoxError>> + 'static,
{
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner();
    // hyper may already have read the beginning of the next request.
    stream.rewind(parts.read_buf);
    Http1Connection {
        stream,
        service: parts.service,
        deadline: Instant::now() + settings.header_timeout.saturating_sub(IDLE_AFTER),
    }
}
