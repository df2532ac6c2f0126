//! The port: HTTP/1.1, h2c and gRPC, told apart by the first bytes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::gateway::Gateway;

/// A stream's window: a common image tensor (3 × 224 × 224 FP32 is 588 KiB) arrives in one go.
const STREAM_WINDOW: u32 = 1 << 20;

/// A connection's window: several such streams.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Streams of one HTTP/2 connection; a client wanting more opens another.
const MAX_STREAMS: u32 = 1024;

/// Long enough not to spin while there are no file descriptors, short enough that no client notices.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

pub(crate) async fn serve(gateway: Arc<Gateway>, listener: TcpListener, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let places = gateway.options.max_connections.min(Semaphore::MAX_PERMITS);
    let places = Arc::new(Semaphore::new(places));
    while let Some(Some((stream, place))) =
        stop.run_until_cancelled(accept(&listener, &places)).await
    {
        let conversation = converse(stream, Arc::clone(&gateway), stop.clone());
        connections.spawn(async move {
            conversation.await;
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The next connection and its place.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    // Never closed, so this waits for a place and nothing else.
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Some((stream, place)),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, gateway: Arc<Gateway>, stop: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let builder = builder(gateway.options.header_timeout);
    let service = service_fn(move |request| {
        let gateway = Arc::clone(&gateway);
        async move { Ok::<_, Infallible>(gateway.answer(request).await) }
    });
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

fn builder(header_timeout: Duration) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_STREAMS);
    builder
}
