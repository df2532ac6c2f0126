//! Accepts connections, bounds them, and ends them without losing an accepted request.

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Http;

/// Serves until `stop`; then finishes what is in flight and returns. Idle connections close.
pub async fn serve(listener: TcpListener, http: Arc<Http>, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(http.options.max_connections));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else {
            continue;
        };
        connections.spawn(converse(stream, Arc::clone(&http), stop.clone(), place));
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            // Out of file descriptors, most likely: retrying at once would spin.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Long enough not to spin, short enough that no client notices.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

async fn converse(
    stream: TcpStream,
    http: Arc<Http>,
    stop: CancellationToken,
    _place: OwnedSemaphorePermit,
) {
    // Answers are small and awaited: Nagle's algorithm would hold them back.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let header_timeout = http.options.header_timeout;
    let service = service_fn(move |request| {
        let http = Arc::clone(&http);
        async move { Ok::<_, std::convert::Infallible>(http.answer(request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Streams of one HTTP/2 connection; a client wanting more opens another.
const MAX_STREAMS: u32 = 1024;
