//! A connection, from its first byte to its end.

use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper::body::Incoming;
use hyper::service::HttpService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_ops::socket::{GRACE, Traffic};

use super::http1::{self, Http1Connection};
use super::http2;
use super::rewind::Rewind;
use super::sniff::{HttpVersion, Wait, sniff};
use super::streams::Streams;

/// What all connections of a port keep to.
pub(super) struct Terms {
    pub(super) streams: Streams,
    /// The longest time for a request's head, idle time before it included.
    pub(super) header_timeout: Duration,
    pub(super) stop: CancellationToken,
}

/// Why something failed, as libraries want it.
pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Carries a connection to its end.
pub(super) async fn serve<I, S>(stream: I, service: S, traffic: &Arc<Traffic>, terms: &Terms)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, Future: Send + Unpin + 'static, Error: Into<Cause>>,
    S::ResBody: Body<Data: Send, Error: Into<Cause>> + Send + 'static,
{
    let mut stream = Rewind::of(stream);
    let wait = Wait {
        deadline: Instant::now() + terms.header_timeout,
        stop: &terms.stop,
    };
    match sniff(&mut stream, wait, HttpVersion::of).await {
        // Apart, so that a connection that is quiet carries nothing of it.
        Some(HttpVersion::Http2) => {
            Box::pin(http2::serve(stream, service, traffic, terms)).await;
        }
        Some(HttpVersion::Http1) => {
            let deadline = wait.deadline;
            let connection = Http1Connection {
                stream,
                service,
                deadline,
            };
            serve_http1(connection, traffic, terms).await;
        }
        None => Box::pin(hang_up(stream)).await,
    }
}

/// HTTP/1.1 with its pauses.
async fn serve_http1<I, S>(
    mut connection: Http1Connection<I, S>,
    traffic: &Arc<Traffic>,
    terms: &Terms,
) where
    I: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, Future: Unpin, Error: Into<Cause>>,
    S::ResBody: Body<Error: Into<Cause>> + 'static,
{
    loop {
        let serving = Box::pin(http1::serve(connection, traffic, terms));
        let Some(idle) = serving.await else {
            return;
        };
        connection = idle;
        let wait = Wait {
            deadline: connection.deadline,
            stop: &terms.stop,
        };
        let sniffed = sniff(&mut connection.stream, wait, |read| {
            (!read.is_empty()).then_some(())
        });
        if sniffed.await.is_none() {
            return Box::pin(hang_up(connection.stream)).await;
        }
    }
}

/// Ends a connection on which nothing is under way.
async fn hang_up<I: AsyncRead + AsyncWrite + Unpin>(mut stream: Rewind<I>) {
    match tokio::time::timeout(GRACE, stream.shutdown()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a quiet connection broke"),
        Err(_) => tracing::debug!("a quiet connection takes no farewell"),
    }
}

#[cfg(test)]
mod tests;
