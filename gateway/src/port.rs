//! The ports through which a gateway takes requests.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;

/// A port for requests. All ports of a gateway take the same; other gateways use the one that they are told of, which has
/// to be plain.
#[derive(Debug)]
pub struct Port {
    /// The socket that takes connections.
    pub listener: TcpListener,
    /// How its connections are encrypted.
    pub encryption: Encryption,
}

/// The way in which a port's connections are encrypted.
#[derive(Clone, Debug)]
pub enum Encryption {
    /// They are not encrypted.
    Plain,
    /// By TLS, and nothing else is taken. It should offer `h2` and `http/1.1`.
    Tls(Arc<ServerConfig>),
}

impl Port {
    /// A port without encryption.
    #[must_use]
    pub fn plain(listener: TcpListener) -> Self {
        Self { listener, encryption: Encryption::Plain }
    }
}
