//! The port: HTTP/1.1, HTTP/2 and gRPC, told apart by the first bytes; all of it plain, or all behind TLS.

mod streams;
mod tls;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_ops::socket::{self, Acceptor, Bulk, Flushed, Stream, Traffic};

use crate::gateway::Gateway;
use crate::options::Options;
use streams::Streams;
pub(crate) use streams::note;

/// A stream's window: a common image tensor (3 × 224 × 224 FP32 is 588 KiB) arrives in one go.
const STREAM_WINDOW: u32 = 1 << 20;

/// A connection's window: several such streams.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// A frame at most: a sixteenth of the work that frames of the common 16 KiB make, and what a connection may
/// be made to hold before it is known to be of use.
const FRAME: u32 = 256 << 10;

/// Streams of one HTTP/2 connection; a client wanting more opens another.
const MAX_STREAMS: u32 = 1024;

pub(crate) async fn serve(gateway: Arc<Gateway>, listener: TcpListener, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let options = &gateway.options;
    let (places, idle) = (options.max_connections, options.body_idle);
    let acceptor = Acceptor::new(listener, places, idle, stop.clone());
    while let Some(stream) = acceptor.accept().await {
        let host = Host {
            gateway: Arc::clone(&gateway),
            streams: connections.clone(),
            stop: stop.clone(),
        };
        connections.spawn(host.receive(stream));
    }
    drop(acceptor);
    gateway.ending.cancel();
    connections.close();
    connections.wait().await;
}

/// What a connection needs of the port.
struct Host {
    gateway: Arc<Gateway>,
    /// Where HTTP/2's streams run.
    streams: TaskTracker,
    stop: CancellationToken,
}

impl Host {
    async fn receive(self, stream: Stream) {
        let traffic = stream.traffic();
        let from = stream.peer();
        let options = &self.gateway.options;
        let Some(config) = &options.tls else {
            return self.converse(stream, from, traffic).await;
        };
        let timeout = options.handshake_timeout;
        let shaken = tls::shake_hands(stream, config, timeout, &self.stop).await;
        if let Some(stream) = shaken {
            self.converse(stream, from, traffic).await;
        }
    }

    async fn converse(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        from: Option<IpAddr>,
        traffic: Arc<Traffic>,
    ) {
        let Self {
            gateway,
            streams,
            stop,
        } = self;
        let builder = builder(&gateway.options, streams);
        let seen = Arc::clone(&traffic);
        let service = service_fn(move |request| {
            let (gateway, exchange) = (Arc::clone(&gateway), seen.begin());
            // Boxed: the library moves it several times, and keeps its room on an idle connection.
            Box::pin(async move {
                Ok::<_, Infallible>(exchange.carry(gateway.answer(request, from).await))
            })
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
}

fn builder(options: &Options, streams: TaskTracker) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(Streams::new(streams, options.body_idle));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_concurrent_streams(MAX_STREAMS);
    builder
}
