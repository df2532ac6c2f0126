//! The two ports, bound before anything else starts, so that a port in use is reported at once.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use weir_ops::admin::TokenFile;
use weir_serve::known_hosts::KnownHosts;

use crate::access::AccessSources;
use crate::args::{LimitArgs, UpArgs};
use crate::error::CliError;
use crate::ports::{bind, token};
use crate::tls::Tls;

/// The two ports, bound but not yet served.
pub(super) struct Ports {
    pub(super) serving: TcpListener,
    pub(super) admin: TcpListener,
    pub(super) serving_at: SocketAddr,
    pub(super) admin_at: SocketAddr,
    /// TLS of the serving port; `None` if it is not encrypted.
    pub(super) tls: Option<Tls>,
    /// Host names that each port accepts.
    pub(super) serving_hosts: KnownHosts,
    pub(super) admin_hosts: KnownHosts,
    /// Tokens of the admin port; `None` if it asks for none.
    pub(super) admin_token: Option<Arc<TokenFile>>,
    /// Limits of the serving port.
    pub(super) limits: LimitArgs,
    /// Keys and rules of clients; `None` serves every request.
    pub(super) access: Option<AccessSources>,
}

impl Ports {
    /// Binds both ports. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`CliError::PortTaken`], [`CliError::PortRefused`], [`CliError::Io`]; [`CliError::Usage`] for an invalid
    /// certificate, or for the same port given to both flags; [`CliError::Invalid`] for access files with errors.
    pub(super) fn bind(args: &UpArgs) -> Result<Self, CliError> {
        let tls = Tls::read(args.tls_cert.as_deref(), args.tls_key.as_deref())?;
        let access = AccessSources::read(&args.access_files, Vec::new())?;
        access.as_ref().map_or(Ok(()), |access| access.check_port(tls.as_ref()))?;
        let admin_token = token(args.admin_token_file.as_deref())?;
        let (serving, serving_at) = bind("--port", SocketAddr::new(args.address, args.port))?;
        let admin = SocketAddr::new(args.admin_address, args.admin_port);
        let admin = bind("--admin-port", admin);
        let (admin, admin_at) = admin.map_err(|error| not_our_own(error, serving_at))?;
        Ok(Self {
            serving,
            admin,
            serving_at,
            admin_at,
            tls,
            serving_hosts: KnownHosts::of(args.address, &args.allowed_hosts),
            admin_hosts: KnownHosts::of(args.admin_address, &args.allowed_hosts),
            admin_token,
            limits: args.limits,
            access,
        })
    }

    /// Returns the scheme of the serving port's URLs.
    pub(super) fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }
}

/// Returns an error that says so if the port is taken by this process itself, for its serving port.
fn not_our_own(error: CliError, serving_at: SocketAddr) -> CliError {
    match error {
        CliError::PortTaken { address, .. } if address.port() == serving_at.port() => {
            let port = address.port();
            CliError::Usage(format!("--port and --admin-port are both {port}: give one of them another port"))
        }
        error => error,
    }
}
