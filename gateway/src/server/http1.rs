//! HTTP/1.1 on one connection, until its end or a pause.

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
use weir_ops::socket::{self, Traffic};

use super::connection::{Cause, Terms};
use super::idle::{IDLE_AFTER, IdleTimer};
use super::rewind::Rewind;

/// A connection between two requests.
pub(super) struct Http1Connection<I, S> {
    pub(super) stream: Rewind<I>,
    pub(super) service: S,
    /// Until when the next head has to be there.
    pub(super) deadline: Instant,
}

/// How it goes on.
enum Next {
    /// Not at all.
    Ended(hyper::Result<()>),
    /// After a pause.
    Idle,
    /// Until all is answered.
    Stop,
}

/// Serves a connection whose next request has begun. Returns it once it is quiet, unless it ended.
pub(super) async fn serve<I, S>(
    connection: Http1Connection<I, S>,
    traffic: &Arc<Traffic>,
    terms: &Terms,
) -> Option<Http1Connection<I, S>>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, Future: Unpin, Error: Into<Cause>>,
    S::ResBody: Body<Error: Into<Cause>> + 'static,
{
    let idle = IdleTimer::new(connection.deadline);
    let mut connection = Builder::new()
        .timer(idle.clone())
        .header_read_timeout(terms.header_timeout)
        .serve_connection(TokioIo::new(connection.stream), connection.service);
    let next = tokio::select! {
        next = until_idle(&mut connection, &idle, traffic) => next,
        () = terms.stop.cancelled() => Next::Stop,
    };
    let ended = match next {
        Next::Idle => return Some(paused(connection, terms)),
        Next::Ended(ended) => ended,
        Next::Stop => {
            Pin::new(&mut connection).graceful_shutdown();
            socket::close(connection, traffic).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
    None
}

async fn until_idle<I, S>(
    connection: &mut Connection<TokioIo<Rewind<I>>, S>,
    idle: &IdleTimer,
    traffic: &Traffic,
) -> Next
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, Future: Unpin, Error: Into<Cause>>,
    S::ResBody: Body<Error: Into<Cause>> + 'static,
{
    poll_fn(|context| match Pin::new(&mut *connection).poll(context) {
        Poll::Ready(ended) => Poll::Ready(Next::Ended(ended)),
        // Whoever does not take an answer still has it before them.
        Poll::Pending if idle.is_now() && !traffic.is_stuck() => Poll::Ready(Next::Idle),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Takes apart a connection that is quiet.
fn paused<I, S>(
    connection: Connection<TokioIo<Rewind<I>>, S>,
    terms: &Terms,
) -> Http1Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, Error: Into<Cause>>,
    S::ResBody: Body<Error: Into<Cause>> + 'static,
{
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner();
    // It may have begun to ask at the last moment.
    stream.unread(parts.read_buf);
    Http1Connection {
        stream,
        service: parts.service,
        deadline: Instant::now() + terms.header_timeout.saturating_sub(IDLE_AFTER),
    }
}
