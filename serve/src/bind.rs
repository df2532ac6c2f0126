//! Binds ports. A program binds all of its ports before it serves one, so that a port in use is reported before
//! anything starts.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use crate::keepalive::Keepalive;

/// Exclusive or shared use of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortUse {
    /// A second listener on the port is an error.
    Exclusive,
    /// Several listeners share the port, by `SO_REUSEPORT`.
    Shared,
}

/// Linux's default of `somaxconn`, which is enough for a burst of connections between two accepts.
pub(crate) const BACKLOG: i32 = 4096;

/// Keep-alive of accepted connections. A client that is gone is detected after a minute, the same time that a request
/// may take. An idle connection costs one packet every half minute.
pub(crate) const CLIENTS: Keepalive =
    Keepalive { time: Duration::from_secs(30), interval: Duration::from_secs(10), probes: 3 };

/// Binds a socket and listens on it. Must be called within a tokio runtime.
///
/// # Errors
/// Fails with the operating system's error, for example `AddrInUse`.
pub fn bind(address: SocketAddr, port: PortUse) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted server can bind the port at once, despite connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    if port == PortUse::Shared {
        socket.set_reuse_port(true)?;
    }
    // Accepted connections inherit the option.
    CLIENTS.set(&socket)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Returns advice for an error of [`bind`], as a sentence to append to the error. The advice is empty if the error is
/// clear by itself.
#[must_use]
pub fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ". Ports below 1024 need root or the capability CAP_NET_BIND_SERVICE: choose a higher port"
        }
        io::ErrorKind::AddrNotAvailable => {
            ". No interface of this machine has the address: `ip addr` lists the addresses, and 0.0.0.0 means all"
        }
        _ => "",
    }
}
