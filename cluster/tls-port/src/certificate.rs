//! Certificates. Each is signed by an authority of its own, whose key is discarded after signing. A reader of the
//! Secret can therefore use the key in it, but cannot sign further certificates.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};

/// Margin by which a certificate's validity starts before its first use, because the clock of its verifier may be
/// behind.
pub(crate) const SKEW: Duration = Duration::from_secs(3600);

/// Role of a certificate's holder in connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The server of a port.
    Server,
    /// Server of some connections and client of others, such as one of several gateways.
    Peer,
}

/// A certificate, its key, and the authority that signed it, all in PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingPair {
    /// Certificate of the authority.
    pub authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// DNS names and IP addresses of the certificate.
    pub(crate) names: Vec<String>,
    /// First second in which the pair may be used, in seconds since 1970.
    pub(crate) begins: u64,
    /// First second in which the pair is no longer valid, in seconds since 1970.
    pub(crate) ends: u64,
}

impl Purpose {
    fn usages(self) -> Vec<ExtendedKeyUsagePurpose> {
        match self {
            Self::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Self::Peer => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        }
    }
}

impl ServingPair {
    /// The certificate in PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The key in PEM.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Creates a pair for `purpose` that may be used from `begins` on, for at most `lifetime`.
    ///
    /// # Errors
    /// [`Error`] when a name is invalid, or the system provides no random numbers.
    pub fn make(purpose: Purpose, names: &[String], begins: u64, lifetime: Duration) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let (authority, issuer) = authority(begins, lifetime)?;
        let mut params = params(names, begins, lifetime)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purpose.usages();
        params.use_authority_key_identifier_extension = true;
        Ok(Self {
            certificate: params.signed_by(&key, &issuer)?.pem(),
            key: key.serialize_pem(),
            authority,
            names: names.to_vec(),
            begins,
            ends: begins.saturating_add(lifetime.as_secs()),
        })
    }
}

/// Creates an authority for one signature: its certificate, and its key.
fn authority(begins: u64, lifetime: Duration) -> Result<(String, Issuer<'static, KeyPair>), Error> {
    let key = KeyPair::generate()?;
    let mut params = params(&[], begins, lifetime)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let certificate = params.self_signed(&key)?.pem();
    Ok((certificate, Issuer::new(params, key)))
}

fn params(names: &[String], begins: u64, lifetime: Duration) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(names)?;
    // Each authority has its own subject name, so that old and new authorities in a bundle can be distinguished.
    let name = names.first().cloned();
    let name = name.unwrap_or_else(|| format!("weir authority {begins}"));
    params.distinguished_name.push(DnType::CommonName, name);
    let begin = date_time_ymd(1970, 1, 1) + Duration::from_secs(begins);
    params.not_before = begin - SKEW;
    params.not_after = begin + lifetime;
    Ok(params)
}

impl std::fmt::Debug for ServingPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServingPair")
            .field("names", &self.names)
            .field("begins", &self.begins)
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}
