//! The certificate that the port serves with: the newest that was readable.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::ServingPair;

/// The certificate of new connections; while there is none, they fail.
#[derive(Debug, Default)]
pub struct Resolver(RwLock<Option<Arc<CertifiedKey>>>);

impl Resolver {
    /// Serves with this pair from now on; `false` where it cannot be read, which changes nothing.
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

/// The pair in the form of the TLS library; `None` where certificate and key cannot be read, or do not belong together.
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

    use super::*;

    #[test]
    fn what_cannot_be_read_or_does_not_fit_changes_nothing() {
        let made = || ServingPair::make(&["a".to_owned()], 1, Duration::from_secs(9)).unwrap();
        let resolver = Resolver::default();
        let pair = made();
        let mixed = ServingPair { key: made().key, ..pair.clone() };
        let broken = ServingPair { certificate: "broken".to_owned(), ..pair.clone() };
        assert!(!resolver.serve_with(&mixed) && !resolver.serve_with(&broken));
        assert!(resolver.0.read().is_none());
        assert!(resolver.serve_with(&pair));
    }
}
