//! A port over TLS, bound but not yet serving.

use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weir_ops::socket::{Acceptor, ConnectionLimits};

use crate::callers::Callers;
use crate::connection::Connections;
use crate::resolver::Resolver;

/// A port over TLS.
#[derive(Debug)]
pub struct TlsPort {
    /// The bound socket that accepts connections.
    pub listener: TcpListener,
    /// The certificate that it serves with.
    pub resolver: Arc<Resolver>,
    /// Callers that may connect.
    pub callers: Callers,
    /// Limits on the connections.
    pub limits: ConnectionLimits,
}

impl TlsPort {
    /// Serves these routes until `stop`.
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
