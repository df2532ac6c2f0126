//! Verifies the callers of the metrics APIs: only the API server's proxy may call, which has authorized its own caller.
//!
//! The ConfigMap `kube-system/extension-apiserver-authentication` holds the CA and the names of the API server's client
//! certificates. The TLS handshake of any other client fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, Error, RootCertStore};
use weir_serve::tls::CheckedClients;
use x509_parser::parse_x509_certificate;

/// Namespace and name of the ConfigMap.
pub(crate) const CONFIG: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

const AUTHORITIES: &str = "requestheader-client-ca-file";
const NAMES: &str = "requestheader-allowed-names";

/// Reads the ConfigMap's data, and returns a verifier that accepts only certificates of the cluster's proxy.
///
/// # Errors
/// A sentence that says what the ConfigMap lacks.
pub(crate) fn proxy_verifier(data: &BTreeMap<String, String>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let names = data.get(NAMES).map_or(Ok(Vec::new()), |names| {
        serde_json::from_str(names).map_err(|error| format!("{NAMES} is not a list: {error}"))
    })?;
    let authorities = data.get(AUTHORITIES).map_or("", String::as_str);
    let roots = roots(authorities).map_err(|error| format!("{AUTHORITIES}: {error}"))?;
    let provider = Arc::new(ring::default_provider());
    let by_authority = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
        .build()
        .map_err(|error| format!("{AUTHORITIES}: {error}: has the API server no aggregation layer?"))?;
    Ok(Arc::new(CheckedClients::new(by_authority, move |certificate| check_name(certificate, &names))))
}

/// Compares the common names of a certificate with the allowed ones. If these are empty, any certificate that the CA signed
/// is accepted.
fn check_name(certificate: &CertificateDer<'_>, allowed: &[String]) -> Result<(), Error> {
    let (_, parsed) = parse_x509_certificate(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let mut names = parsed.subject().iter_common_name();
    let is_allowed = |name: &str| allowed.iter().any(|allowed| allowed == name);
    if allowed.is_empty() || names.any(|name| name.as_str().is_ok_and(is_allowed)) {
        Ok(())
    } else {
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}

fn roots(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use rustls::pki_types::UnixTime;

    use super::*;

    /// Creates a CA in PEM, and a certificate with this common name that it signed.
    fn signed(name: &str) -> (String, CertificateDer<'static>) {
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = authority.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(authority, key);
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let own = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&own, &issuer).unwrap();
        (pem, certificate.der().clone())
    }

    fn verifier(authorities: &str, names: &str) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let data = [(AUTHORITIES, authorities), (NAMES, names)];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        proxy_verifier(&data.into())
    }

    #[test]
    fn only_allowed_names_signed_by_the_ca_are_accepted() {
        let (authority, proxy) = signed("front-proxy");
        let (_, stranger) = signed("front-proxy");
        let comes_in = |names: &str, certificate: &CertificateDer<'_>| {
            let verifier = verifier(&authority, names).unwrap();
            let verified = verifier.verify_client_cert(certificate, &[], UnixTime::now());
            verified.is_ok()
        };
        assert!(comes_in(r#"["front-proxy"]"#, &proxy));
        assert!(comes_in("[]", &proxy));
        assert!(!comes_in(r#"["other"]"#, &proxy));
        assert!(!comes_in("[]", &stranger));
    }

    #[test]
    fn a_cluster_without_the_aggregation_layer_is_reported() {
        let error = proxy_verifier(&BTreeMap::new()).unwrap_err();
        assert!(error.contains("no aggregation layer"), "{error}");
        assert!(verifier("-----BEGIN CERTIFICATE-----\nAA", "[]").is_err());
        assert!(verifier("", "x").is_err());
    }
}
