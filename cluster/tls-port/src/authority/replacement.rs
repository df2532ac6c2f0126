//! The authorities of replicas while one replaces the other.
//!
//! ```text
//!              trusted          signs for replicas and gateways    signs for the port of certificates
//!   before     old              old                                old
//!   prepared   old and new      old                                old
//!   switched   old and new      new                                old
//!   after      new              new                                new
//! ```
//!
//! A replica learns with each of its certificates which authorities it has to trust, but its pod names only those of
//! the time at which the revision was made. So the port keeps a certificate of the former authority for as long as that
//! is trusted: pods of older revisions connect there.

use std::time::Duration;

use rcgen::Error;

use super::{Authority, Holder};
use crate::certificate::ServingPair;

/// The authority of replicas, and during its replacement also the next or the former one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorities {
    /// The authority that signs new certificates.
    pub(super) current: Authority,
    /// Trusted, and signs nothing yet.
    pub(super) next: Option<Authority>,
    /// Trusted, and signs only for the port of certificates.
    pub(super) former: Option<Authority>,
}

impl Authorities {
    /// Creates the state outside a replacement.
    #[must_use]
    pub fn of(current: Authority) -> Self {
        Self { current, next: None, former: None }
    }

    /// Returns the certificates of all trusted authorities in PEM, first that of the one that signs.
    #[must_use]
    pub fn trusted(&self) -> String {
        let others = self.next.iter().chain(&self.former);
        [&self.current].into_iter().chain(others).map(Authority::certificate).collect()
    }

    /// Returns the end of the authority that signs new certificates, in seconds since 1970.
    #[must_use]
    pub fn ends(&self) -> u64 {
        self.current.ends()
    }

    /// Makes a key, and signs a certificate for it that may be used from `begins` on, for `lifetime`.
    ///
    /// # Errors
    /// [`Error`] as for [`Authority::sign`].
    pub fn sign(&self, holder: Holder<'_>, begins: u64, lifetime: Duration) -> Result<ServingPair, Error> {
        let signer = match holder {
            Holder::Replica(_) | Holder::Gateway(_) => &self.current,
            Holder::Port(_) => self.former.as_ref().unwrap_or(&self.current),
        };
        let pair = signer.sign(holder, begins, lifetime)?;
        Ok(ServingPair { authority: self.trusted(), ..pair })
    }
}

#[cfg(test)]
mod tests {
    use rustls::RootCertStore;
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, UnixTime};
    use rustls::server::ParsedCertificate;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn is_accepted(pair: &ServingPair, trusted: &str) -> bool {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let certificate = CertificateDer::from_pem_slice(pair.certificate().as_bytes()).unwrap();
        let parsed = ParsedCertificate::try_from(&certificate).unwrap();
        let algorithms = ring::default_provider().signature_verification_algorithms.all;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
        let verify = rustls::client::verify_server_cert_signed_by_trust_anchor;
        verify(&parsed, &roots, &[], now, algorithms).is_ok()
    }

    /// Readers learn of a step at different times.
    #[test]
    fn a_certificate_is_trusted_one_step_before_it_is_made_and_one_step_afterwards() {
        // The same second, so that both authorities have one name.
        let [old, new] = [(); 2].map(|()| Authority::make(NOW).unwrap());
        let steps = [
            Authorities::of(old.clone()),
            Authorities { next: Some(new.clone()), ..Authorities::of(old.clone()) },
            Authorities { former: Some(old.clone()), ..Authorities::of(new.clone()) },
            Authorities::of(new.clone()),
        ];
        for (number, step) in steps.iter().enumerate() {
            let pair = step.sign(Holder::Replica("weir://a/b-predictor-00001"), NOW, Duration::from_secs(60)).unwrap();
            for seen in &steps[number.saturating_sub(1)..(number + 2).min(steps.len())] {
                assert!(is_accepted(&pair, &seen.trusted()), "of step {number}, by {seen:?}");
            }
            assert_eq!(is_accepted(&pair, new.certificate()), number >= 2);
            let port = step.sign(Holder::Port("localhost"), NOW, Duration::from_secs(60)).unwrap();
            assert_eq!(is_accepted(&port, old.certificate()), number < 3);
            assert_eq!(port.authority, step.trusted());
        }
    }
}
