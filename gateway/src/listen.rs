//! The port: HTTP/1.1, h2c and gRPC, told apart by the first bytes.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_ops::socket::{self, Acceptor, Bulk, Flushed, Stream};

use crate::gateway::Gateway;

/// A stream's window: a common image tensor (3 × 224 × 224 FP32 is 588 KiB) arrives in one go.
const STREAM_WINDOW: u32 = 1 << 20;

/// A connection's window: several such streams.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Streams of one HTTP/2 connection; a client wanting more opens another.
const MAX_STREAMS: u32 = 1024;

pub(crate) async fn serve(gateway: Arc<Gateway>, listener: TcpListener, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let options = &gateway.options;
    let (places, idle) = (options.max_connections, options.body_idle);
    let acceptor = Acceptor::new(listener, places, idle, stop.clone());
    while let Some(stream) = acceptor.accept().await {
        connections.spawn(converse(stream, Arc::clone(&gateway), stop.clone()));
    }
    drop(acceptor);
    connections.close();
    connections.wait().await;
}

async fn converse(stream: Stream, gateway: Arc<Gateway>, stop: CancellationToken) {
    let builder = builder(gateway.options.header_timeout);
    let traffic = stream.traffic();
    let seen = Arc::clone(&traffic);
    let service = service_fn(move |request| {
        let (gateway, exchange) = (Arc::clone(&gateway), seen.begin());
        // The library keeps room for one as long as the connection, and most of the time none is there.
        Box::pin(async move { Ok::<_, Infallible>(exchange.carry(gateway.answer(request).await)) })
    });
    let socket = Bulk::accepted(stream);
    let outlet = socket.outlet();
    let connection = builder.serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(Flushed::new(connection, outlet));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().connection().graceful_shutdown();
            socket::close(connection, &traffic).await
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
