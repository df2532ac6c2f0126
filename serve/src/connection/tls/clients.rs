//! Verification of clients by their certificates.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Maximum number of certificates in a chain. A public chain has three or four.
const MAX_CERTIFICATES: usize = 8;

/// Maximum size in bytes of a chain, which its connection keeps. A certificate with an RSA key of 4096 bits takes
/// 2 KiB.
const MAX_BYTES: usize = 16 << 10;

/// Verifier of clients. It accepts a chain that is within limits, so that a connection takes bounded memory and time,
/// that an authority has signed, and whose first certificate, the client's own, passes a check. The check can refuse
/// certificates that the same authority has signed for other purposes.
pub struct CheckedClients<C> {
    chains: Arc<dyn ClientCertVerifier>,
    check: C,
}

impl<C: Fn(&CertificateDer<'_>) -> Result<(), Error> + Send + Sync> CheckedClients<C> {
    /// Creates a verifier that applies `check` to the own certificates of clients whose chains `chains` accepts.
    pub fn new(chains: Arc<dyn ClientCertVerifier>, check: C) -> Self {
        Self { chains, check }
    }
}

impl<C> fmt::Debug for CheckedClients<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedClients").field("chains", &self.chains).finish_non_exhaustive()
    }
}

impl<C: Fn(&CertificateDer<'_>) -> Result<(), Error> + Send + Sync> ClientCertVerifier for CheckedClients<C> {
    fn offer_client_auth(&self) -> bool {
        self.chains.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bytes = certificate.len() + intermediates.iter().map(|one| one.len()).sum::<usize>();
        if intermediates.len() >= MAX_CERTIFICATES || bytes > MAX_BYTES {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        let verified = self.chains.verify_client_cert(certificate, intermediates, now)?;
        (self.check)(certificate)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
