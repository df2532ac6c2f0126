//! The two ports, bound before anything starts, so that a port in use is known at once.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpListener;
use weir_ops::socket::{self, PortUse};

use super::tls::Tls;
use crate::args::UpArgs;
use crate::error::CliError;

/// The two ports, bound and not yet served.
pub(super) struct Ports {
    pub(super) serving: TcpListener,
    pub(super) admin: TcpListener,
    pub(super) serving_at: SocketAddr,
    pub(super) admin_at: SocketAddr,
    /// Encryption of the port for requests.
    pub(super) tls: Option<Tls>,
}

impl Ports {
    /// Binds both ports. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`CliError::PortTaken`], [`CliError::Io`], or [`CliError::Usage`] for an invalid certificate.
    pub(super) fn bind(args: &UpArgs) -> Result<Self, CliError> {
        let tls = Tls::read(args)?;
        let (serving, serving_at) = bind("--port", args.address, args.port)?;
        let (admin, admin_at) = bind("--admin-port", args.address, args.admin_port)?;
        Ok(Self {
            serving,
            admin,
            serving_at,
            admin_at,
            tls,
        })
    }

    /// Scheme of the URLs for requests.
    pub(super) fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }
}

/// Binds a port; the address has the port's number if 0 was given.
fn bind(
    flag: &'static str,
    address: IpAddr,
    port: u16,
) -> Result<(TcpListener, SocketAddr), CliError> {
    let address = SocketAddr::new(address, port);
    let listener =
        socket::bind(address, PortUse::Exclusive).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => CliError::PortTaken { flag, address },
            _ => CliError::io(format!("cannot listen on {address} ({flag})"), source),
        })?;
    let bound = listener.local_addr().unwrap_or(address);
    Ok((listener, bound))
}
