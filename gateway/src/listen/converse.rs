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

use super::hear::{Protocol, Wait, hear};
use super::http1::{self, Plain};
use super::http2;
use super::replay::Replay;
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
pub(super) async fn converse<I, S>(stream: I, service: S, traffic: &Arc<Traffic>, terms: &Terms)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, Future: Send + Unpin + 'static, Error: Into<Cause>>,
    S::ResBody: Body<Data: Send, Error: Into<Cause>> + Send + 'static,
{
    let mut stream = Replay::of(stream);
    let wait = Wait {
        deadline: Instant::now() + terms.header_timeout,
        stop: &terms.stop,
    };
    match hear(&mut stream, wait, Protocol::of).await {
        // Apart, so that a connection that is quiet carries nothing of it.
        Some(Protocol::Http2) => {
            Box::pin(http2::serve(stream, service, traffic, terms)).await;
        }
        Some(Protocol::Http1) => {
            let deadline = wait.deadline;
            let plain = Plain {
                stream,
                service,
                deadline,
            };
            talk_plainly(plain, traffic, terms).await;
        }
        None => Box::pin(hang_up(stream)).await,
    }
}

/// HTTP/1.1 with its pauses.
async fn talk_plainly<I, S>(mut plain: Plain<I, S>, traffic: &Arc<Traffic>, terms: &Terms)
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, Future: Unpin, Error: Into<Cause>>,
    S::ResBody: Body<Error: Into<Cause>> + 'static,
{
    loop {
        let serving = Box::pin(http1::serve(plain, traffic, terms));
        let Some(quiet) = serving.await else {
            return;
        };
        plain = quiet;
        let wait = Wait {
            deadline: plain.deadline,
            stop: &terms.stop,
        };
        let heard = hear(&mut plain.stream, wait, |read| {
            (!read.is_empty()).then_some(())
        });
        if heard.await.is_none() {
            return Box::pin(hang_up(plain.stream)).await;
        }
    }
}

/// Ends a connection on which nothing is under way.
async fn hang_up<I: AsyncRead + AsyncWrite + Unpin>(mut stream: Replay<I>) {
    match tokio::time::timeout(GRACE, stream.shutdown()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a quiet connection broke"),
        Err(_) => tracing::debug!("a quiet connection takes no farewell"),
    }
}

#[cfg(test)]
mod tests;
