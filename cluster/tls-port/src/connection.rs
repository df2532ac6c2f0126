//! Connections to a port that API servers call.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::FutureExt;
use http::Request;
use hyper::body::Incoming;
use rustls::crypto::ring;
use rustls::server::WantsServerCert;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ConfigBuilder, ServerConfig, version};
use tower::Service;
use weir_serve::{HttpPort, Stream, TimedBody, tls};

use crate::resolver::Resolver;

/// Maximum time of a TLS handshake, which takes two round trips.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum concurrent streams of one HTTP/2 connection: an API server sends the calls of all its concurrent clients
/// over one connection.
pub(crate) const MAX_STREAMS: u32 = 100;

/// ALPN protocols, preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// State that the port's connections share.
#[derive(Clone)]
pub(crate) struct Connections {
    router: Router,
    tls: Arc<ServerConfig>,
    port: HttpPort,
}

impl Connections {
    /// Creates the shared state of a port's connections.
    ///
    /// # Errors
    /// [`rustls::Error`] when the cryptography library lacks a version of TLS.
    pub(crate) fn new(
        router: Router,
        resolver: Arc<Resolver>,
        callers: &Callers,
        port: HttpPort,
    ) -> Result<Self, rustls::Error> {
        Ok(Self { router, tls: Arc::new(config(resolver, callers)?), port })
    }

    /// Serves one connection until it ends, or until shortly after the port closes.
    pub(crate) async fn serve(self, stream: Stream) {
        let traffic = stream.traffic();
        let Some(stream) = tls::handshake(stream, self.tls, HANDSHAKE_TIMEOUT, self.port.stop()).await else {
            return;
        };
        let answer = |request: Request<TimedBody<Incoming>>| {
            let answered = self.router.clone().call(request.map(Body::new));
            answered.map(|Ok(response)| response)
        };
        self.port.serve_timed(stream, answer, &traffic).await;
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

/// Clients that may connect.
#[derive(Clone, Debug)]
pub enum Callers {
    /// Any client: by default an API server presents no certificate to a webhook.
    Any,
    /// Clients whose certificate the verifier accepts.
    Verified(Arc<dyn ClientCertVerifier>),
}

impl Callers {
    pub(crate) fn checked_by(
        &self,
        builder: ConfigBuilder<ServerConfig, rustls::WantsVerifier>,
    ) -> ConfigBuilder<ServerConfig, WantsServerCert> {
        match self {
            Self::Any => builder.with_no_client_auth(),
            Self::Verified(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        }
    }
}
