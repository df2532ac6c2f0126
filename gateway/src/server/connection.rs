//! One connection, from its first byte to its end.

use std::sync::Arc;

use http_body::Body;
use hyper::body::Incoming;
use hyper::service::HttpService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use weir_serve::{GRACE, Traffic};

use super::head_size::{self, HeadSize};
use super::http1::{self, Http1Connection};
use super::http2;
use super::rewind::Rewind;
use super::settings::{BoxError, ServerSettings};
use super::sniff::{HttpVersion, WaitLimits, sniff};

/// Serves a connection until it ends.
pub(super) async fn serve<I, S>(stream: I, service: S, traffic: &Arc<Traffic>, settings: &ServerSettings)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, Future: Send + Unpin + 'static, Error: Into<BoxError>>,
    S::ResBody: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let mut stream = Rewind::of(stream);
    let limits = WaitLimits { deadline: Instant::now() + settings.header_timeout, stop: &settings.stop };
    match sniff(&mut stream, limits, HttpVersion::of).await {
        // Boxed, so that an idle connection's future reserves no space for HTTP/2.
        Some(HttpVersion::Http2) => {
            Box::pin(http2::serve(stream, service, traffic, settings)).await;
        }
        Some(HttpVersion::Http1) => {
            let deadline = limits.deadline;
            let connection = Http1Connection { stream, service, deadline };
            serve_http1(connection, traffic, settings).await;
        }
        None => Box::pin(close_idle(stream)).await,
    }
}

/// Serves HTTP/1.1 and, between two requests, waits idle for the next one.
async fn serve_http1<I, S>(mut connection: Http1Connection<I, S>, traffic: &Arc<Traffic>, settings: &ServerSettings)
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, Future: Unpin, Error: Into<BoxError>>,
    S::ResBody: Body<Error: Into<BoxError>> + 'static,
{
    loop {
        let limits = WaitLimits { deadline: connection.deadline, stop: &settings.stop };
        let size = sniff(&mut connection.stream, limits, HeadSize::of).await;
        if let Some((cause, answer)) = size.and_then(HeadSize::refusal) {
            settings.log_refusal(cause, &"the request's head is too long");
            return Box::pin(head_size::refuse(connection.stream, answer)).await;
        }
        let serving = Box::pin(http1::serve(connection, traffic, settings));
        let Some(idle) = serving.await else {
            return;
        };
        connection = idle;
        let limits = WaitLimits { deadline: connection.deadline, stop: &settings.stop };
        let sniffed = sniff(&mut connection.stream, limits, |read| (!read.is_empty()).then_some(()));
        if sniffed.await.is_none() {
            return Box::pin(close_idle(connection.stream)).await;
        }
    }
}

/// Closes a connection without open requests.
async fn close_idle<I: AsyncRead + AsyncWrite + Unpin>(mut stream: Rewind<I>) {
    match tokio::time::timeout(GRACE, stream.shutdown()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "closing an idle connection failed"),
        Err(_) => tracing::debug!("closing an idle connection timed out"),
    }
}

#[cfg(test)]
mod tests;
