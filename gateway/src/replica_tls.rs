//! TLS to replicas: the gateway and the replica of a revision prove by certificates what they are.
//!
//! ```text
//!   gateway ── TLS 1.3 ──► address of a replica of the revision R: its certificate has the URI of R, and no other name
//! ```
//!
//! Addresses are used again: a pod may have the address at which a replica of another revision, or of another namespace, has
//! just ended. The certificate of that pod has another name, so the handshake fails before the request is sent.

mod identity;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, Error as TlsError, version};
use weir_access::ClientCertificates;

use crate::certificates::{AuthorityError, CertificateFiles, CertificateFilesError, ClientAuthority};
use identity::ReplicaVerifier;
pub(crate) use identity::server_name;

/// An error in the files for the connections to replicas.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaTlsError {
    /// A file cannot be used.
    #[error("{0}")]
    Files(#[from] CertificateFilesError),
    /// The authorities cannot be used.
    #[error("the authorities: {0}")]
    Authorities(#[from] AuthorityError),
    /// Certificate and key cannot be used.
    #[error("the certificate and its key cannot be used: {0}")]
    Tls(#[from] TlsError),
}

/// TLS of the connections to replicas. The files may be replaced at any time: from then on new requests use new
/// connections, and requests that have begun go on.
#[derive(Debug, Default)]
pub struct ReplicaTls {
    /// `None` before the first files.
    current: ArcSwapOption<ClientConfig>,
    generation: AtomicU64,
}

impl ReplicaTls {
    /// Replaces the files.
    ///
    /// # Errors
    /// [`ReplicaTlsError`]. The previous files then stay in use.
    pub fn replace(&self, files: CertificateFiles<'_>) -> Result<(), ReplicaTlsError> {
        self.current.store(Some(Arc::new(config(files)?)));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Returns the number of times that the files were replaced.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the configuration for new connections; `None` before the first files.
    pub(crate) fn client(&self) -> Option<Arc<ClientConfig>> {
        self.current.load_full()
    }
}

fn config(files: CertificateFiles<'_>) -> Result<ClientConfig, ReplicaTlsError> {
    let (chain, key) = files.pair()?;
    let authority = ClientAuthority::new(&ClientCertificates::default(), files.authorities)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = ReplicaVerifier::new(authority.roots(), provider.signature_verification_algorithms);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(chain, key)?;
    // A resumed session has no new verification of the replica.
    config.resumption = Resumption::disabled();
    // Replicas have one certificate, and a listener on the network need not read names of services.
    config.enable_sni = false;
    Ok(config)
}
