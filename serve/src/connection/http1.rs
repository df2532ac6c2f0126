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

use super::BoxError;
use super::idle::{IDLE_AFTER, IdleTimer};
use super::rewind::Rewind;
use crate::http_port::HttpPort;
use crate::lifetime::{self, LATE_REQUESTS};
use crate::traffic::Traffic;

/// An HTTP/1.1 connection between two requests.
pub(super) struct Http1Connection<I, S> {
    pub(super) stream: Rewind<I>,
    pub(super) service: S,
    /// Time by which the next request's head must be complete.
    pub(super) deadline: Instant,
    pub(super) limits: Http1Limits,
}

/// Limits of HTTP/1.1, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Http1Limits {
    pub(super) max_head: usize,
    pub(super) read_at_once: usize,
}

/// Event after which hyper's connection is no longer polled.
enum ConnectionEvent {
    /// The connection ended, perhaps with an error.
    Ended(hyper::Result<()>),
    /// No request was open for [`IDLE_AFTER`].
    Idle,
    /// The port shuts down.
    Shutdown,
}

/// Serves a connection whose next request has begun, and then its tunnel if the connection leaves HTTP. Returns the
/// connection once it is idle; `None` if it ended.
pub(super) async fn serve<I, S>(
    connection: Http1Connection<I, S>,
    traffic: &Arc<Traffic>,
    port: &HttpPort,
) -> Option<Http1Connection<I, S>>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, Error: Into<BoxError>> + Unpin,
    S::ResBody: Body<Error: Into<BoxError>> + 'static,
{
    let (idle, limits) = (IdleTimer::new(connection.deadline), connection.limits);
    let mut connection = Builder::new()
        .timer(idle.clone())
        .max_header_size(limits.max_head)
        .max_buf_size(limits.read_at_once)
        .header_read_timeout(port.options().connections.idle)
        .serve_connection(TokioIo::new(connection.stream), connection.service);
    let event = tokio::select! {
        event = until_idle(&mut connection, &idle, traffic) => event,
        () = lifetime::closed(port.stop(), LATE_REQUESTS) => ConnectionEvent::Shutdown,
    };
    let ended = match event {
        ConnectionEvent::Idle => return Some(release(connection, limits, port)),
        ConnectionEvent::Ended(ended) => ended,
        ConnectionEvent::Shutdown => {
            Pin::new(&mut connection).graceful_shutdown();
            lifetime::close(&mut connection, traffic).await
        }
    };
    let tunnel = traffic.take_tunnel();
    match ended {
        Err(error) if error.is_parse() => port.log_refusal("malformed_head", &error),
        Err(error) => tracing::debug!(%error, "connection ended"),
        Ok(()) => {
            if let Some((tunnel, _exchange)) = tunnel {
                tunnel.run(Box::new(release(connection, limits, port).stream)).await;
            }
        }
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
    S: HttpService<Incoming, Error: Into<BoxError>> + Unpin,
    S::ResBody: Body<Error: Into<BoxError>> + 'static,
{
    poll_fn(|context| {
        traffic.begin_turn();
        match Pin::new(&mut *connection).poll(context) {
            Poll::Ready(ended) => Poll::Ready(ConnectionEvent::Ended(ended)),
            // A client that has not read its whole response is not idle.
            Poll::Pending if idle.is_idle() && !traffic.is_blocked() => Poll::Ready(ConnectionEvent::Idle),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Releases hyper's state of an idle connection, and keeps its socket.
fn release<I, S>(
    connection: Connection<TokioIo<Rewind<I>>, S>,
    limits: Http1Limits,
    port: &HttpPort,
) -> Http1Connection<I, S>
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
        deadline: port.head_deadline() - IDLE_AFTER.min(port.options().connections.idle),
        limits,
    }
}
