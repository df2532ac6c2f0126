//! A TLS port, bound but not yet serving.

use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weir_serve::{Acceptor, ConnectionLimits};

use crate::callers::Callers;
use crate::connection::Connections;
use crate::resolver::Resolver;

/// A TLS port with its certificates and limits.
#[derive(Debug)]
pub struct TlsPort {
    /// The bound socket that accepts connections.
    pub listener: TcpListener,
    /// Source of the certificate for new connections.
    pub resolver: Arc<Resolver>,
    /// Clients that may connect.
    pub callers: Callers,
    /// Limits on the connections.
    pub limits: ConnectionLimits,
}

impl TlsPort {
    /// Serves these routes until `stop` is cancelled.
    pub async fn serve(self, router: Router, stop: CancellationToken) {
        let connections = Connections::new(router, self.resolver, &self.callers, self.limits, &stop);
        match connections {
            Ok(connections) => {
                Acceptor::new(self.listener, self.limits, stop).serve(|stream| connections.clone().serve(stream)).await;
            }
            Err(error) => tracing::error!(%error, "a port cannot serve TLS"),
        }
    }
}
