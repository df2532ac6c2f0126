//! The name of a revision in the certificates of its replicas, and its verification.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use weir_cluster::RevisionName;

use crate::certificates::only_uri;

/// Last label of the server name of a revision. A server name may not end in a number, as a namespace may.
const SUFFIX: &str = ".weir";

/// Verifier of the certificates of replicas. The server name selects the expected revision, so that one configuration
/// serves the connections to all revisions.
#[derive(Debug)]
pub(super) struct ReplicaVerifier {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Reason why a certificate is not that of the expected replica.
#[derive(Debug)]
struct WrongName {
    found: Option<String>,
    expected: String,
}

/// Returns the server name of the replicas of a revision, `REVISION.NAMESPACE.weir`; `None` for a name that no
/// Kubernetes object can have. No replica has a certificate with this name: it only stands for the URI that is
/// expected.
pub(crate) fn server_name(revision: &RevisionName) -> Option<ServerName<'static>> {
    let name = format!("{}.{}{SUFFIX}", revision.as_str(), revision.service().namespace());
    ServerName::try_from(name).ok()
}

/// Returns the URI in the certificates of the replicas with this server name, `weir://NAMESPACE/REVISION`; `None` for
/// the name of something else.
fn expected_uri(name: &ServerName<'_>) -> Option<String> {
    let ServerName::DnsName(name) = name else {
        return None;
    };
    let (revision, namespace) = name.as_ref().strip_suffix(SUFFIX)?.split_once('.')?;
    Some(format!("weir://{namespace}/{revision}"))
}

/// Compares the only alternative name of a certificate with the one that is expected.
fn check_name(found: Option<String>, expected: String) -> Result<(), WrongName> {
    if found.as_ref() == Some(&expected) { Ok(()) } else { Err(WrongName { found, expected }) }
}

impl ReplicaVerifier {
    pub(super) fn new(roots: Arc<RootCertStore>, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { roots, algorithms }
    }
}

impl ServerCertVerifier for ReplicaVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, self.algorithms.all)?;
        let expected = expected_uri(name).ok_or(CertificateError::NotValidForName)?;
        check_name(only_uri(certificate), expected).map_err(|wrong| Error::Other(OtherError(Arc::new(wrong))))?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl fmt::Display for WrongName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = &self.expected;
        match &self.found {
            Some(found) => write!(f, "its certificate is that of {found}, and not of {expected}"),
            None => write!(f, "its certificate has not exactly one name, which has to be {expected}"),
        }
    }
}

impl std::error::Error for WrongName {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_cluster::ServiceName;

    use super::*;

    /// Names of Kubernetes objects: labels, which may be numbers.
    const LABEL: &str = "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?";

    fn uri(namespace: &str, service: &str, number: u32) -> Option<String> {
        let revision = ServiceName::new(namespace, service).ok()?.revision(number).ok()?;
        let expected = expected_uri(&server_name(&revision).unwrap()).unwrap();
        assert_eq!(expected, format!("weir://{namespace}/{}", revision.as_str()));
        Some(expected)
    }

    proptest! {
        #[test]
        fn each_revision_has_a_uri_of_its_own(
            namespaces in [LABEL, LABEL],
            services in ["[a-z]([a-z0-9-]{0,20}[a-z0-9])?", "[a-z]([a-z0-9-]{0,20}[a-z0-9])?"],
            numbers in [1_u32..100, 1_u32..100],
        ) {
            let [one, other] = [0, 1].map(|at| uri(&namespaces[at], &services[at], numbers[at]));
            prop_assert!(one.is_some());
            let is_same = namespaces[0] == namespaces[1] && services[0] == services[1] && numbers[0] == numbers[1];
            prop_assert_eq!(one == other, is_same);
        }

        #[test]
        fn only_the_exact_name_is_accepted(found in proptest::option::of("(weir://)?[a-z/.]{0,8}"), expected in "weir://[a-z/.]{0,4}") {
            let is_accepted = check_name(found.clone(), expected.clone()).is_ok();
            prop_assert_eq!(is_accepted, found == Some(expected));
        }
    }

    #[test]
    fn names_of_other_things_are_those_of_no_revision() {
        for name in ["weir-gateway", "a.example.com", "a.weir", "10.0.0.1"] {
            assert_eq!(expected_uri(&name.try_into().unwrap()), None, "{name}");
        }
    }
}
