//! The ports on which a gateway accepts requests.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;

/// A port for requests. All ports of a gateway accept the same requests. The port that other gateways use has to be
/// without encryption.
#[derive(Debug)]
pub struct Port {
    /// Socket that accepts connections.
    pub listener: TcpListener,
    /// Encryption of the port's connections.
    pub encryption: Encryption,
}

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
        Self { listener, encryption: Encryption::Plain }
    }
}
