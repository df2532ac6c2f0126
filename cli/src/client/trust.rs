//! Whom `https://` is believed.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, version};

use crate::error::CliError;
use crate::pem::certificates;

/// Believes whom the certificates of a file vouch for, and whoever shows one of them as its own: with a
/// self-signed certificate that is all there is, whatever name is in it.
#[derive(Debug)]
struct Trust {
    own: Vec<CertificateDer<'static>>,
    web: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
}

/// A client that trusts the certificates of this PEM file.
///
/// # Errors
/// [`CliError::Input`] for a file without certificates.
pub(super) fn config(file: &Path) -> Result<Arc<ClientConfig>, CliError> {
    let fault = |because: String| CliError::Input {
        file: file.to_owned(),
        because,
    };
    let own = certificates(file).map_err(fault)?;
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(own.iter().cloned());
    let web = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let web = web.build().map_err(|error| fault(error.to_string()))?;
    let trust = Trust {
        own,
        web,
        provider: Arc::clone(&provider),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| fault(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.own.iter().any(|own| own == shown) {
            true => Ok(ServerCertVerified::assertion()),
            false => self.web.verify_server_cert(shown, above, name, ocsp, now),
        }
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
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
