//! A TLS port, bound but not yet serving.

use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weir_serve::{ConnectionLimits, HttpOptions, HttpPort};

use crate::connection::Callers;
use crate::connection::{Connections, MAX_STREAMS};
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
        let port = HttpPort::new(HttpOptions::control(self.limits, MAX_STREAMS), stop);
        match Connections::new(router, self.resolver, &self.callers, port.clone()) {
            Ok(connections) => {
                port.accept(self.listener, |stream| connections.clone().serve(stream)).await;
                port.ended().await;
            }
            Err(error) => tracing::error!(%error, "a port cannot serve TLS"),
        }
    }
}
