//! Ports and their connections. A port is bound before it is served, so that a taken port is known before
//! anything starts; connections are limited in number, and end within seconds, whatever their clients do.

mod accept;
mod buffered;
mod stream;
mod traffic;

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

pub use accept::Acceptor;
pub use buffered::{BufferedSocket, Flushed, SocketFlusher};
pub use stream::Stream;
pub use traffic::{Counted, Exchange, GRACE, Traffic, close};

/// Exclusive or shared use of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortUse {
    /// A second listener is an error.
    Exclusive,
    /// Several listeners share the port: `SO_REUSEPORT`.
    Shared,
}

/// Linux's own default of `somaxconn`: enough for a burst of connections between two accepts.
const BACKLOG: i32 = 4096;

/// Binds and listens. Must be called within a tokio runtime.
///
/// # Errors
/// The operating system's, `AddrInUse` among them.
pub fn bind(address: SocketAddr, port: PortUse) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restarted server takes its port back at once.
    socket.set_reuse_address(true)?;
    if port == PortUse::Shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests;
