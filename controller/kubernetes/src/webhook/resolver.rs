//! The certificate that the port serves with: the newest that was readable.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::ServingPair;

/// The certificate of new connections; while there is none, they fail.
#[derive(Debug, Default)]
pub(crate) struct Resolver(RwLock<Option<Arc<CertifiedKey>>>);

impl Resolver {
    /// Serves with this certificate from now on.
    pub(crate) fn serve_with(&self, key: Arc<CertifiedKey>) {
        *self.0.write() = Some(key);
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

/// The pair in the form of the TLS library; `None` where certificate and key cannot be read, or do not belong together.
pub(crate) fn certified(pair: &ServingPair) -> Option<Arc<CertifiedKey>> {
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
    let chain: Result<Vec<_>, _> = chain.collect();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes());
    let provider = ring::default_provider();
    CertifiedKey::from_der(chain.ok()?, key.ok()?, &provider)
        .ok()
        .map(Arc::new)
}
