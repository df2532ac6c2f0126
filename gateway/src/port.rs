//! The ports on which a gateway accepts requests.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::ResolvesServerCert;
use tokio_rustls::rustls::{ConfigBuilder, Error as TlsError, ServerConfig, WantsVerifier, version};
use weir_cluster::Host;

/// A port for requests. All ports of a gateway that have no host of their own accept the same requests. Other gateways
/// need a port with [`Encryption::Plain`] and without a host; gateways with certificates speak TLS on that port.
#[derive(Debug)]
pub struct Port {
    /// Socket that accepts connections.
    pub listener: TcpListener,
    /// Encryption of the port's connections.
    pub encryption: Encryption,
    /// Host to which every request of the port is routed, whatever host it names; `None` to route each request by its
    /// own host, path or model.
    pub host: Option<Host>,
}

/// Host to which all requests of a port are routed, as an extension of each request.
#[derive(Clone, Debug)]
pub(crate) struct PortHost(pub(crate) Host);

/// Encryption of a port's connections.
#[derive(Clone, Debug)]
pub enum Encryption {
    /// Plain TCP for clients. Other gateways with certificates may use TLS.
    Plain,
    /// TLS; a client without it is disconnected.
    Tls(ServerTls),
}

/// TLS of a port: versions 1.2 and 1.3, for HTTP/2 and HTTP/1.1. Clients may present certificates if the gateway's
/// access control has authorities for them.
#[derive(Clone, Debug)]
pub struct ServerTls {
    pub(crate) builder: ConfigBuilder<ServerConfig, WantsVerifier>,
    pub(crate) certificate: Arc<dyn ResolvesServerCert>,
}

impl ServerTls {
    /// Returns the TLS of a port that serves with this certificate.
    ///
    /// # Errors
    /// An error if the cryptography library does not support one of the versions.
    pub fn new(certificate: Arc<dyn ResolvesServerCert>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&version::TLS13, &version::TLS12])?;
        Ok(Self { builder, certificate })
    }
}

impl Port {
    /// Creates a port without encryption.
    #[must_use]
    pub fn plain(listener: TcpListener) -> Self {
        Self { listener, encryption: Encryption::Plain, host: None }
    }

    /// Creates a port without encryption that routes every request to this host. Clients on this machine that cannot
    /// resolve the host can then reach it by the port's address.
    #[must_use]
    pub fn of_host(listener: TcpListener, host: Host) -> Self {
        Self { listener, encryption: Encryption::Plain, host: Some(host) }
    }
}
