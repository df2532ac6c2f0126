//! Clients that may connect to a port.

use std::sync::Arc;

use rustls::server::WantsServerCert;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ConfigBuilder, ServerConfig};

/// Clients that may connect.
#[derive(Clone, Debug)]
pub enum Callers {
    /// Any client: by default an API server presents no certificate to a webhook.
    Any,
    /// Clients whose certificate the verifier accepts.
    Verified(Arc<dyn ClientCertVerifier>),
}

impl Callers {
    pub(crate) fn checked_by(
        &self,
        builder: ConfigBuilder<ServerConfig, rustls::WantsVerifier>,
    ) -> ConfigBuilder<ServerConfig, WantsServerCert> {
        match self {
            Self::Any => builder.with_no_client_auth(),
            Self::Verified(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        }
    }
}
