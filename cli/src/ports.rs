//! Binding of listening ports, with errors that name the flag.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpListener;
use weir_ops::admin::TokenFile;
use weir_serve::PortUse;

use crate::error::CliError;

/// Binds a port and returns the bound address; port 0 is replaced by the number that the system chose.
///
/// # Errors
/// [`CliError::PortTaken`] when another process uses the port, [`CliError::PortRefused`] for any other reason.
pub(crate) fn bind(flag: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), CliError> {
    let listener = weir_serve::bind(address, PortUse::Exclusive).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => CliError::PortTaken { flag, address },
        _ => CliError::PortRefused { flag, address, source },
    })?;
    let bound = listener.local_addr().unwrap_or(address);
    Ok((listener, bound))
}

/// Reads the file of `--admin-token-file`; `None` without the flag.
///
/// # Errors
/// [`CliError::Usage`] for a file without valid tokens.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<Arc<TokenFile>>, CliError> {
    let opened = file.map(TokenFile::open).transpose();
    let opened = opened.map_err(|error| CliError::Usage(format!("--admin-token-file: {error}")))?;
    Ok(opened.map(Arc::new))
}

/// Duplicates a listener. Both handles share one queue, so each connection is accepted by one of them only.
///
/// # Errors
/// An error of the operating system, for instance when too many files are open.
pub(crate) fn share(listener: &TcpListener) -> io::Result<TcpListener> {
    let copy = socket2::SockRef::from(listener).try_clone()?;
    TcpListener::from_std(copy.into())
}
