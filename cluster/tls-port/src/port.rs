//! A port over TLS, bound but not yet serving.

use std::sync::Arc;

use axum::Router;
use rustls::server::WantsServerCert;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ConfigBuilder, ServerConfig};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weir_ops::socket::{Acceptor, ConnectionLimits};

use crate::connection::Connections;
use crate::resolver::Resolver;

/// A port over TLS.
#[derive(Debug)]
pub struct TlsPort {
    /// Where connections come in.
    pub listener: TcpListener,
    /// The certificate that it serves with.
    pub resolver: Arc<Resolver>,
    /// Who may connect.
    pub callers: Callers,
    /// Limits on the connections.
    pub limits: ConnectionLimits,
}

/// Who may connect.
#[derive(Clone, Debug)]
pub enum Callers {
    /// Anybody: an API server shows a webhook no certificate by default.
    Anybody,
    /// Those whose certificate the verifier accepts.
    Verified(Arc<dyn ClientCertVerifier>),
}

impl TlsPort {
    /// Serves these routes until `stop`.
    pub async fn serve(self, router: Router, stop: CancellationToken) {
        let connections =
            Connections::new(router, self.resolver, &self.callers, self.limits, &stop);
        match connections {
            Ok(connections) => {
                Acceptor::new(self.listener, self.limits, stop)
                    .serve(|stream| connections.clone().serve(stream))
                    .await;
            }
            Err(error) => tracing::error!(%error, "a port cannot serve TLS"),
        }
    }
}

impl Callers {
    pub(crate) fn checked_by(
        &self,
        builder: ConfigBuilder<ServerConfig, rustls::WantsVerifier>,
    ) -> ConfigBuilder<ServerConfig, WantsServerCert> {
        match self {
            Self::Anybody => builder.with_no_client_auth(),
            Self::Verified(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        }
    }
}
