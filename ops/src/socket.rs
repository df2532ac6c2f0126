//! Ports and their connections. A port is bound before it is served, so that a taken port is known before
//! anything starts; connections are limited in number, and end within seconds, whatever their clients do.

mod accept;
mod buffered;
mod fair_socket;
mod frame_budget;
mod http_connections;
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

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::net::TcpListener;

pub use accept::Acceptor;
pub use buffered::{BufferedSocket, Flushed, SocketFlusher};
pub use fair_socket::FairSocket;
pub use http_connections::HttpConnections;
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
    /// A second listener is an error.
    Exclusive,
    /// Several listeners share the port: `SO_REUSEPORT`.
    Shared,
}

/// Linux's own default of `somaxconn`: enough for a burst of connections between two accepts.
const BACKLOG: i32 = 4096;

/// Silence after which a peer is asked whether it is there, and the pause between such probes: one that is gone is
/// noticed after a minute, as long as a request may take, and a connection costs a packet each half minute.
const KEEPALIVE_TIME: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Time after which a peer counts as gone that acknowledges nothing of what was sent: as long as the probes take.
#[cfg(target_os = "linux")]
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(60);

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
    notice_dead_peers(&socket)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Advice for when [`bind`] fails, a sentence to follow the error; empty where the error says enough.
#[must_use]
pub fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ". Ports below 1024 need root or the capability CAP_NET_BIND_SERVICE: choose a higher one"
        }
        io::ErrorKind::AddrNotAvailable => {
            ". No interface of this machine has the address: `ip addr` lists those that there are, and \
             0.0.0.0 means all"
        }
        _ => "",
    }
}

/// Accepted connections inherit this from their listener.
fn notice_dead_peers(socket: &Socket) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(ACKNOWLEDGED_WITHIN))?;
    Ok(())
}

#[cfg(test)]
mod tests;
