//! TLS configuration of a port's handshakes. It depends on the authorities of clients, which access files may replace
//! while the port serves.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio_rustls::rustls::ServerConfig;

use crate::access::AccessControl;
use crate::certificates::Authorities;
use crate::port::ServerTls;

/// Protocols that clients may choose from, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The TLS configuration of a port. New connections use the current authorities of clients.
pub(super) struct TlsConfig {
    tls: ServerTls,
    last: ArcSwapOption<Built>,
}

/// The configuration for these authorities.
struct Built {
    authorities: Option<Arc<Authorities>>,
    config: Arc<ServerConfig>,
}

impl TlsConfig {
    pub(super) fn new(tls: ServerTls) -> Self {
        Self { tls, last: ArcSwapOption::empty() }
    }

    /// Returns the configuration for a new connection. With new authorities, it begins with no sessions that clients
    /// could resume.
    pub(super) fn current(&self, access: Option<&AccessControl>) -> Arc<ServerConfig> {
        let authorities = access.map(AccessControl::authorities);
        if let Some(built) = &*self.last.load()
            && is_same(built.authorities.as_ref(), authorities.as_ref())
        {
            return Arc::clone(&built.config);
        }
        let config = Arc::new(self.build(authorities.as_deref()));
        self.last.store(Some(Arc::new(Built { authorities, config: Arc::clone(&config) })));
        config
    }

    fn build(&self, authorities: Option<&Authorities>) -> ServerConfig {
        let builder = self.tls.builder.clone();
        let builder = match authorities.and_then(|authorities| authorities.handshakes.clone()) {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&self.tls.certificate));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        config
    }
}

fn is_same(one: Option<&Arc<Authorities>>, other: Option<&Arc<Authorities>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
