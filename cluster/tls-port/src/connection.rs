//! One connection to a port that API servers call.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::crypto::ring;
use rustls::{ServerConfig, version};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;
use weir_ops::socket::{self, ConnectionLimits, Lifetime, Stream, StreamExecutor, TimedBody};

use crate::callers::Callers;
use crate::resolver::Resolver;

/// Longest TLS handshake: two round trips.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest request head; an API server's is a few hundred bytes.
const MAX_HEAD: u32 = 8192;

/// Streams of one HTTP/2 connection: an API server sends the reviews of all that write at once by one.
const MAX_STREAMS: u32 = 100;

/// Interval of HTTP/2's keep-alive pings, and time to answer one.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Protocols that clients may choose from, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The parts that the port's connections share.
#[derive(Clone)]
pub(crate) struct Connections {
    router: Router,
    tls: TlsAcceptor,
    limits: ConnectionLimits,
    streams: StreamExecutor,
    stop: CancellationToken,
}

impl Connections {
    /// # Errors
    /// When the cryptography library lacks a version of TLS.
    pub(crate) fn new(
        router: Router,
        resolver: Arc<Resolver>,
        callers: &Callers,
        limits: ConnectionLimits,
        stop: &CancellationToken,
    ) -> Result<Self, rustls::Error> {
        Ok(Self {
            router,
            tls: TlsAcceptor::from(Arc::new(config(resolver, callers)?)),
            limits,
            streams: StreamExecutor::new(TaskTracker::new(), &limits),
            stop: stop.clone(),
        })
    }

    /// Serves one connection until it ends, or soon after the port closes.
    pub(crate) async fn serve(self, stream: Stream) {
        let traffic = stream.traffic();
        let Some(stream) = self.handshake(stream).await else {
            return;
        };
        let (own, seen) = (self.clone(), Arc::clone(&traffic));
        let service = service_fn(move |request: http::Request<Incoming>| {
            let (own, exchange) = (own.clone(), seen.begin());
            async move {
                let body = |body| Body::new(TimedBody::whole(body, own.limits.upload()));
                let answer = own.router.clone().call(request.map(body));
                answer.await.map(|response| exchange.track(response))
            }
        });
        let builder = self.builder();
        let connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let lifetime = Lifetime {
            idle: self.limits.idle,
            stop: &self.stop,
        };
        let ended = socket::serve(
            connection,
            auto::Connection::graceful_shutdown,
            &traffic,
            lifetime,
        );
        if let Err(error) = ended.await {
            tracing::debug!(%error, "a connection of an API server ended early");
        }
    }

    /// Performs the TLS handshake; `None` if it fails, takes too long, or the port closes meanwhile.
    async fn handshake(&self, stream: Stream) -> Option<TlsStream<Stream>> {
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.tls.accept(stream));
        match self.stop.run_until_cancelled(handshake).await? {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake with an API server failed");
                None
            }
            Err(_) => None,
        }
    }

    fn builder(&self) -> auto::Builder<StreamExecutor> {
        let mut builder = auto::Builder::new(self.streams.clone());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle)
            .max_buf_size(MAX_HEAD as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEAD)
            .max_concurrent_streams(MAX_STREAMS)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY);
        builder
    }
}

/// TLS 1.2 and 1.3.
fn config(resolver: Arc<Resolver>, callers: &Callers) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?;
    let mut config = callers.checked_by(builder).with_cert_resolver(resolver);
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}
