//! The ports on which a gateway accepts requests.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;
use weir_cluster::Host;

/// A port for requests. All ports of a gateway without a host of their own accept the same requests. The port that
/// other gateways use has to be without encryption.
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
    /// Plain TCP without encryption.
    Plain,
    /// TLS only. The configuration should offer `h2` and `http/1.1`.
    Tls(Arc<ServerConfig>),
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
