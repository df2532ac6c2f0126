//! Binding of ports, with errors that name the flag.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use weir_ops::socket::{self, PortUse};

use crate::error::CliError;

/// Binds a port; the address has the port's number if 0 was given.
///
/// # Errors
/// [`CliError::PortTaken`], [`CliError::PortRefused`].
pub(crate) fn bind(flag: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), CliError> {
    let listener = socket::bind(address, PortUse::Exclusive).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => CliError::PortTaken { flag, address },
        _ => CliError::PortRefused { flag, address, source },
    })?;
    let bound = listener.local_addr().unwrap_or(address);
    Ok((listener, bound))
}

/// Another handle of a listener: what it accepts, the first does not.
///
/// # Errors
/// Those of the operating system, as when there are too many open files.
pub(crate) fn share(listener: &TcpListener) -> io::Result<TcpListener> {
    let copy = socket2::SockRef::from(listener).try_clone()?;
    TcpListener::from_std(copy.into())
}
