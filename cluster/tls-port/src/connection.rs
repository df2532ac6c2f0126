//! Connections to a port that API servers call.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use rustls::crypto::ring;
use rustls::{ServerConfig, version};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::Service;
use weir_serve::{ConnectionLimits, HttpConnections, Stream};

use crate::callers::Callers;
use crate::resolver::Resolver;

/// Maximum time of a TLS handshake, which takes two round trips.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of streams of one HTTP/2 connection: an API server sends all concurrent admission reviews over one
/// connection.
const MAX_STREAMS: u32 = 100;

/// ALPN protocols, preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// State that the port's connections share.
#[derive(Clone)]
pub(crate) struct Connections {
    router: Router,
    tls: TlsAcceptor,
    http: HttpConnections,
}

impl Connections {
    /// # Errors
    /// [`rustls::Error`] when the cryptography library lacks a version of TLS.
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
            http: HttpConnections::new(limits, MAX_STREAMS, stop.clone()),
        })
    }

    /// Serves one connection until it ends, or until shortly after the port closes.
    pub(crate) async fn serve(self, stream: Stream) {
        let traffic = stream.traffic();
        let Some(stream) = self.handshake(stream).await else {
            return;
        };
        let answer = |request: Request| self.router.clone().call(request);
        if let Err(error) = self.http.serve(stream, &traffic, answer).await {
            tracing::debug!(%error, "a connection of an API server ended early");
        }
    }

    /// Performs the TLS handshake; `None` if it fails, takes too long, or the port closes meanwhile.
    async fn handshake(&self, stream: Stream) -> Option<TlsStream<Stream>> {
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.tls.accept(stream));
        match self.http.stop().run_until_cancelled(handshake).await? {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake with an API server failed");
                None
            }
            Err(_) => None,
        }
    }
}

/// Returns a server configuration for TLS 1.2 and 1.3.
fn config(resolver: Arc<Resolver>, callers: &Callers) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13, &version::TLS12])?;
    let mut config = callers.checked_by(builder).with_cert_resolver(resolver);
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}
