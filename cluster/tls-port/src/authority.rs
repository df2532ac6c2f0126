//! The authority of replicas: it signs their certificates, and those of the gateways that connect to them.
//!
//! The key is kept in a Secret that only controllers read. The authority lives for ten years, and is replaced with the
//! steps of docs/kubernetes.md.

mod gateways;
mod kept;
mod replacement;

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use serde::{Deserialize, Serialize};

use crate::certificate::{SKEW, ServingPair};
pub use gateways::keep_replica_client;
pub use kept::kept_authorities;
pub use replacement::Authorities;

/// Lifetime of the authority.
const LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);

/// An authority with its key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// Certificate of the authority itself, in PEM.
    certificate: String,
    /// Key that signs, in PEM.
    key: String,
    /// Time at which the authority was made, in seconds since 1970.
    begins: u64,
}

/// Holder of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder<'a> {
    /// The replica with this URI, as a server.
    Replica(&'a str),
    /// Gateways, which have this DNS name, as clients.
    Gateway(&'a str),
    /// The port with this DNS name or IP address on which replicas get their certificates.
    Port(&'a str),
}

impl Holder<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Replica(_) => "weir replica",
            Self::Gateway(_) => "weir gateway",
            Self::Port(_) => "weir certificates",
        }
    }

    fn purpose(self) -> ExtendedKeyUsagePurpose {
        match self {
            Self::Replica(_) | Self::Port(_) => ExtendedKeyUsagePurpose::ServerAuth,
            Self::Gateway(_) => ExtendedKeyUsagePurpose::ClientAuth,
        }
    }

    /// Returns the parameters of a certificate whose only alternative name is that of the holder.
    fn params(self) -> Result<CertificateParams, Error> {
        match self {
            Self::Replica(uri) => {
                let mut params = CertificateParams::new([])?;
                params.subject_alt_names = vec![SanType::URI(uri.try_into()?)];
                Ok(params)
            }
            Self::Gateway(name) | Self::Port(name) => CertificateParams::new([name.to_owned()]),
        }
    }
}

impl Authority {
    /// Makes an authority at this time, in seconds since 1970.
    ///
    /// # Errors
    /// [`Error`] when the system provides no random numbers.
    pub fn make(now: u64) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let certificate = authority_params(now).self_signed(&key)?.pem();
        Ok(Self { certificate, key: key.serialize_pem(), begins: now })
    }

    /// The authority's certificate in PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the time from which neither the authority nor what it has signed is trusted, in seconds since 1970.
    #[must_use]
    pub fn ends(&self) -> u64 {
        self.begins.saturating_add(LIFETIME.as_secs())
    }

    /// Makes a key, and signs a certificate for it that may be used from `begins` on, for `lifetime`.
    ///
    /// # Errors
    /// [`Error`] when the holder's name or the authority's key is invalid, or the system provides no random numbers.
    pub fn sign(&self, holder: Holder<'_>, begins: u64, lifetime: Duration) -> Result<ServingPair, Error> {
        let issuer = Issuer::new(authority_params(self.begins), KeyPair::from_pem(&self.key)?);
        let key = KeyPair::generate()?;
        let mut params = holder.params()?;
        params.distinguished_name.push(DnType::CommonName, holder.name());
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![holder.purpose()];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, begins, lifetime);
        Ok(ServingPair {
            certificate: params.signed_by(&key, &issuer)?.pem(),
            key: key.serialize_pem(),
            authority: self.certificate.clone(),
            names: Vec::new(),
            begins,
            ends: begins.saturating_add(lifetime.as_secs()),
        })
    }
}

/// Returns the parameters of an authority's certificate, the same ones whenever they are needed.
fn authority_params(begins: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("weir replicas {begins}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    set_validity(&mut params, begins, LIFETIME);
    params
}

fn set_validity(params: &mut CertificateParams, begins: u64, lifetime: Duration) {
    let begin = date_time_ymd(1970, 1, 1) + Duration::from_secs(begins);
    params.not_before = begin - SKEW;
    params.not_after = begin + lifetime;
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("begins", &self.begins).finish_non_exhaustive()
    }
}
