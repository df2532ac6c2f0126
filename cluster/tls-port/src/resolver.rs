//! Certificate of a port: the newest one that could be parsed.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::ServingPair;

/// The certificate for new connections. Connections fail while there is none.
#[derive(Debug, Default)]
pub struct Resolver(RwLock<Option<Arc<CertifiedKey>>>);

impl Resolver {
    /// Uses this pair for new connections from now on. Returns `false`, and changes nothing, if the pair cannot be
    /// parsed.
    pub fn serve_with(&self, pair: &ServingPair) -> bool {
        let key = certified(pair);
        let is_readable = key.is_some();
        if is_readable {
            *self.0.write() = key;
        }
        is_readable
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

/// Converts the pair for the TLS library; `None` if the certificate or key cannot be parsed, or they do not match.
fn certified(pair: &ServingPair) -> Option<Arc<CertifiedKey>> {
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
    let chain: Result<Vec<_>, _> = chain.collect();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes());
    let provider = ring::default_provider();
    CertifiedKey::from_der(chain.ok()?, key.ok()?, &provider).ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::certificate::Purpose;

    use super::*;

    #[test]
    fn an_unreadable_or_mismatched_pair_changes_nothing() {
        let made = || ServingPair::make(Purpose::Server, &["a".to_owned()], 1, Duration::from_secs(9)).unwrap();
        let resolver = Resolver::default();
        let pair = made();
        let mixed = ServingPair { key: made().key, ..pair.clone() };
        let broken = ServingPair { certificate: "broken".to_owned(), ..pair.clone() };
        assert!(!resolver.serve_with(&mixed) && !resolver.serve_with(&broken));
        assert!(resolver.0.read().is_none());
        assert!(resolver.serve_with(&pair));
    }
}
