//! TLS of the ports for requests: this replica's certificate, and the clients that may connect.
//!
//! ```text
//!   gateway ── TLS 1.3, certificates of both sides ──► HTTP and gRPC ports
//!   kubelet, scraper ── plain ──► metrics port
//! ```
//!
//! The certificate may be replaced at any time: new connections use the new one, and open ones go on.

mod connection;
mod files;
mod issuer;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{Error as RustlsError, RootCertStore, ServerConfig, version};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use weir_serve::Stream;
use weir_serve::tls::{self, CheckedClients};

pub(crate) use connection::serve_connection;
pub(crate) use files::TlsFiles;
pub(crate) use issuer::CertificateIssuer;

/// Longest time of a handshake, which takes two round trips between nodes of a cluster.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Protocols that clients may choose from, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// TLS of the ports for requests.
#[derive(Debug)]
pub(crate) struct RequestTls {
    /// The DNS name of the certificates of all clients.
    client_name: ServerName<'static>,
    /// `None` before the first certificate.
    current: ArcSwapOption<ServerConfig>,
}

/// A certificate with its key and the authorities of clients, in PEM.
#[derive(Clone, Copy)]
pub(crate) struct TlsContent<'a> {
    /// This replica's certificate, followed by those between it and an authority.
    pub(crate) certificate: &'a [u8],
    pub(crate) key: &'a [u8],
    /// Authorities that sign the certificates of clients.
    pub(crate) client_authorities: &'a [u8],
}

/// An error in a certificate, its key or the authorities.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("the name of clients is not a DNS name: {0}")]
    Name(InvalidDnsNameError),
    #[error("the {content} cannot be read as PEM: {source}")]
    Pem { content: &'static str, source: PemError },
    #[error("the authorities of clients have a certificate that cannot be used: {0}")]
    Authority(RustlsError),
    #[error("the authorities of clients: {0}")]
    Verifier(#[from] VerifierBuilderError),
    #[error("the certificate and its key cannot be used: {0}")]
    Pair(#[from] RustlsError),
}

impl RequestTls {
    /// Creates the TLS of ports that have no certificate yet, and so refuse every connection.
    ///
    /// # Errors
    /// [`TlsError::Name`].
    pub(crate) fn without_certificate(client_name: &str) -> Result<Self, TlsError> {
        let client_name = ServerName::try_from(client_name.to_owned()).map_err(TlsError::Name)?;
        Ok(Self { client_name, current: ArcSwapOption::empty() })
    }

    /// Uses this content for connections from now on.
    ///
    /// # Errors
    /// [`TlsError`]. The former content then stays in use.
    pub(crate) fn replace(&self, content: TlsContent<'_>) -> Result<(), TlsError> {
        self.current.store(Some(Arc::new(config(&self.client_name, content)?)));
        Ok(())
    }

    /// Uses no certificate from now on, because the last one has expired.
    pub(crate) fn clear(&self) {
        self.current.store(None);
    }

    /// Returns true once there is a certificate: without one, no request arrives.
    pub(crate) fn has_certificate(&self) -> bool {
        self.current.load().is_some()
    }

    /// Performs the handshake of a new connection; `None` if the client may not connect, or there is no certificate yet.
    async fn accept(&self, stream: Stream, stop: &CancellationToken) -> Option<Box<TlsStream<Stream>>> {
        let config = self.current.load_full()?;
        tls::handshake(stream, config, HANDSHAKE_TIMEOUT, stop).await.map(Box::new)
    }
}

/// Returns the configuration for clients with this name.
fn config(client_name: &ServerName<'static>, content: TlsContent<'_>) -> Result<ServerConfig, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content.certificate).collect();
    let chain = chain.map_err(|source| TlsError::Pem { content: "certificate", source })?;
    let key = PrivateKeyDer::from_pem_slice(content.key).map_err(|source| TlsError::Pem { content: "key", source })?;
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(authorities(content.client_authorities)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])?
        .with_client_cert_verifier(Arc::new(CheckedClients::new(verifier, named(client_name.clone()))))
        .with_single_cert(chain, key)?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    // A resumed session has no new verification of its client, so each connection begins with a whole handshake.
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Returns the check of a client's certificate for this name. The authority also signs certificates for replicas.
fn named(name: ServerName<'static>) -> impl Fn(&CertificateDer<'_>) -> Result<(), RustlsError> {
    move |certificate| verify_server_name(&ParsedCertificate::try_from(certificate)?, &name)
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|source| TlsError::Pem { content: "authorities of clients", source })?;
        roots.add(certificate).map_err(TlsError::Authority)?;
    }
    Ok(roots)
}
