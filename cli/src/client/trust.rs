//! Certificates by which the client trusts `https://` servers.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, version};

use crate::error::CliError;
use crate::pem::certificates;

/// Verifier that accepts a server whose certificate is in a file or was issued by one in it. A self-signed certificate
/// in the file is accepted whatever name it holds.
#[derive(Debug)]
struct FileVerifier {
    certificates: Vec<CertificateDer<'static>>,
    /// Verifier for server certificates issued by one of the file's certificates.
    issued: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
}

/// Returns a TLS configuration that trusts no server, for clients that use plain HTTP.
pub(super) fn none() -> Result<ClientConfig, CliError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| CliError::Usage(error.to_string()))?;
    let roots = RootCertStore::empty();
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Returns a TLS configuration that trusts the certificates of this PEM file.
///
/// # Errors
/// [`CliError::Input`] for a file without certificates.
pub(super) fn certificates_of(file: &Path) -> Result<ClientConfig, CliError> {
    let invalid = |reason: String| CliError::Input { file: file.to_owned(), reason };
    let certificates = certificates(file).map_err(invalid)?;
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    let issued = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let issued = issued.build().map_err(|error| invalid(error.to_string()))?;
    let verifier = FileVerifier { certificates, issued, provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| invalid(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

impl ServerCertVerifier for FileVerifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.iter().any(|trusted| trusted == shown) {
            return Ok(ServerCertVerified::assertion());
        }
        self.issued.verify_server_cert(shown, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, shown, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, shown, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
