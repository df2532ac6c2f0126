//! Listening ports and their connections. A port is bound before it is served, so that a port in use is reported before
//! anything starts. The number of connections is limited, and connections close within seconds at shutdown, whatever
//! their clients do.

mod accept;
mod body_end;
mod buffered;
mod fair_socket;
mod frame_budget;
mod http_connections;
mod keepalive;
mod limits;
mod message_framing;
mod pace;
mod places;
mod reserved;
mod serve;
mod stream;
mod streams;
mod timed_body;
mod traffic;
mod waiting;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

pub use accept::Acceptor;
pub use body_end::{BodyEnd, BrokenOff};
pub use buffered::{BufferedSocket, Flushed, SocketFlusher};
pub use fair_socket::FairSocket;
pub use http_connections::HttpConnections;
pub use keepalive::Keepalive;
pub use limits::ConnectionLimits;
pub use message_framing::MessageFraming;
pub use pace::{Pace, Upload};
pub use reserved::{HeldPlace, ReservedPlaces};
pub use serve::{LATE_REQUESTS, Lifetime, close, closed, serve};
pub use stream::Stream;
pub use streams::StreamExecutor;
pub use timed_body::{Stalled, TimedBody};
pub use traffic::{Counted, Exchange, GRACE, Traffic};

/// Exclusive or shared use of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortUse {
    /// A second listener on the port is an error.
    Exclusive,
    /// Several listeners share the port, by `SO_REUSEPORT`.
    Shared,
}

/// Linux's default of `somaxconn`, which is enough for a burst of connections between two accepts.
const BACKLOG: i32 = 4096;

/// Keep-alive of accepted connections. A client that is gone is detected after a minute, the same time that a request
/// may take. An idle connection costs one packet every half minute.
const CLIENTS: Keepalive = Keepalive { time: Duration::from_secs(30), interval: Duration::from_secs(10), probes: 3 };

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

#[cfg(test)]
mod tests;
