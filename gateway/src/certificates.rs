//! Clients that the certificates of their TLS connections name.
//!
//! ```text
//!   handshake: an authority has signed the chain ─► connection ─► each request: chain, name and expiry
//! ```
//!
//! The handshake refuses a certificate that no authority has signed. The client is decided for each request, because
//! the authorities may be replaced, and the certificate may expire, while the connection is open. A chain is verified
//! again only in these two cases. The handshake of a resumed session verifies no certificate, and need not for the same
//! reason.

mod chain;
mod files;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{Error as TlsError, RootCertStore};
use weir_access::{Caller, CertificateName, ClientCertificates, Operations, RESERVED_NAMES, is_client_name};
use weir_serve::tls::CheckedClients;

pub(crate) use chain::only_uri;
pub use files::{CertificateFiles, CertificateFilesError};

/// Seconds for which the refusal of a chain is remembered, so that its client cannot have it verified for each request.
const REFUSED_FOR: u64 = 60;

/// Authorities that sign the certificates of clients, and the rules for the clients' names.
#[derive(Debug)]
pub struct ClientAuthority {
    roots: RootCertStore,
    verifier: Arc<dyn ClientCertVerifier>,
    settings: ClientCertificates,
}

/// An error in a file of certificate authorities.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The file is not PEM.
    #[error("it cannot be read as PEM: {0}")]
    Pem(PemError),
    /// A certificate is not that of an authority.
    #[error("it has a certificate that cannot be used: {0}")]
    Certificate(TlsError),
    /// The file has no certificate.
    #[error("it holds no certificate in PEM")]
    Verifier(VerifierBuilderError),
}

/// Reason why the certificate of a connection names no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CertificateError {
    /// No authority accepts the chain now.
    #[error("no authority accepts its certificate: {0}")]
    Untrusted(String),
    /// The certificate does not have the configured field, or has it several times.
    #[error("its certificate has not exactly one {0}")]
    Field(&'static str),
    /// The name cannot be that of a client.
    #[error("its certificate has a name that no client can have")]
    Name,
    /// The name belongs to Kubernetes.
    #[error("its certificate has a name that begins with `system:`")]
    ReservedName,
}

/// All authorities of clients.
#[derive(Debug, Default)]
pub(crate) struct Authorities {
    entries: Vec<ClientAuthority>,
    /// Verifier of handshakes, which accepts clients without a certificate; `None` without authorities.
    pub(crate) handshakes: Option<Arc<dyn ClientCertVerifier>>,
}

/// The certificates that the client of a connection presented in its handshake, its own first.
#[derive(Clone, Debug)]
pub(crate) struct ClientChain(Arc<Presented>);

#[derive(Debug)]
struct Presented {
    chain: Vec<CertificateDer<'static>>,
    last: Mutex<Option<Decision>>,
}

/// The client of a chain, as last decided.
#[derive(Clone, Debug)]
struct Decision {
    by: Arc<Authorities>,
    /// Last second in which the decision holds, in seconds since 1970.
    until: u64,
    client: Result<Arc<Caller>, CertificateError>,
}

impl ClientAuthority {
    /// Creates the authorities of an entry from the content of its file in PEM.
    ///
    /// # Errors
    /// [`AuthorityError`] for a file that holds no usable certificate.
    pub fn new(settings: &ClientCertificates, pem: &[u8]) -> Result<Self, AuthorityError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(AuthorityError::Pem)?).map_err(AuthorityError::Certificate)?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider).build();
        let verifier = verifier.map_err(AuthorityError::Verifier)?;
        Ok(Self { roots, verifier, settings: settings.clone() })
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        Arc::new(self.roots.clone())
    }

    /// Returns a verifier of handshakes that refuses clients without a certificate.
    pub(crate) fn mandatory(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(CheckedClients::new(Arc::clone(&self.verifier), |_| Ok(())))
    }

    /// Returns the client that a certificate of this authority names.
    fn client(&self, certificate: &CertificateDer<'_>) -> Result<Arc<Caller>, CertificateError> {
        let name = match self.settings.client_from {
            CertificateName::CommonName => {
                chain::common_name(certificate).ok_or(CertificateError::Field("common name"))
            }
            CertificateName::DnsName => chain::dns_name(certificate).ok_or(CertificateError::Field("DNS name")),
            CertificateName::Uri => chain::uri(certificate).ok_or(CertificateError::Field("URI")),
        };
        let name = format!("{}{}", self.settings.client_prefix, name?);
        if name.starts_with(RESERVED_NAMES) {
            return Err(CertificateError::ReservedName);
        }
        if !is_client_name(&name) {
            return Err(CertificateError::Name);
        }
        Ok(Arc::new(Caller::named(name.into(), Vec::new(), Operations::ALL)))
    }
}

impl Authorities {
    /// Combines the authorities of all entries.
    ///
    /// # Errors
    /// [`AuthorityError::Verifier`] if the verifier of handshakes cannot be created.
    pub(crate) fn new(entries: Vec<ClientAuthority>) -> Result<Self, AuthorityError> {
        if entries.is_empty() {
            return Ok(Self::default());
        }
        let mut roots = RootCertStore::empty();
        roots.extend(entries.iter().flat_map(|entry| entry.roots.roots.iter().cloned()));
        let provider = Arc::new(ring::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated();
        let verifier = builder.build().map_err(AuthorityError::Verifier)?;
        Ok(Self { entries, handshakes: Some(Arc::new(CheckedClients::new(verifier, |_| Ok(())))) })
    }

    /// Decides about a chain at `now`, in seconds since 1970.
    fn decide(self: &Arc<Self>, chain: &[CertificateDer<'static>], now: u64) -> Decision {
        let client = self.client(chain, now);
        let until = match &client {
            Ok(_) => chain::first_expiry(chain, now),
            Err(_) => now.saturating_add(REFUSED_FOR),
        };
        Decision { by: Arc::clone(self), until, client }
    }

    fn client(&self, chain: &[CertificateDer<'static>], now: u64) -> Result<Arc<Caller>, CertificateError> {
        let mut error = CertificateError::Untrusted("it has none".to_owned());
        let Some((own, intermediates)) = chain.split_first() else {
            return Err(error);
        };
        for entry in &self.entries {
            match entry.verifier.verify_client_cert(own, intermediates, chain::time(now)) {
                Ok(_) => return entry.client(own),
                Err(reason) => error = CertificateError::Untrusted(reason.to_string()),
            }
        }
        Err(error)
    }
}

impl ClientChain {
    /// Creates the chain of a connection; `None` if its client presented no certificate.
    pub(crate) fn new(presented: Option<&[CertificateDer<'static>]>) -> Option<Self> {
        let chain = presented.filter(|chain| !chain.is_empty())?.to_vec();
        Some(Self(Arc::new(Presented { chain, last: Mutex::new(None) })))
    }

    /// Returns the client at `now`, in seconds since 1970; `None` if no authorities are configured.
    ///
    /// # Errors
    /// [`CertificateError`] if the certificate is not accepted now, or names no client.
    pub(crate) fn client(
        &self,
        authorities: &Arc<Authorities>,
        now: u64,
    ) -> Option<Result<Arc<Caller>, CertificateError>> {
        if authorities.entries.is_empty() {
            return None;
        }
        let mut last = self.0.last.lock();
        let holds = |decision: &&Decision| Arc::ptr_eq(&decision.by, authorities) && now <= decision.until;
        if let Some(decision) = last.as_ref().filter(holds) {
            return Some(decision.client.clone());
        }
        let decision = authorities.decide(&self.0.chain, now);
        let client = decision.client.clone();
        *last = Some(decision);
        Some(client)
    }
}

#[cfg(test)]
mod tests;
