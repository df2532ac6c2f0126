//! Authorities, and the certificates that they sign.

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};

pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate of a server at 127.0.0.1.
    pub(crate) fn server(&self) -> Pair {
        self.sign(SanType::IpAddress([127, 0, 0, 1].into()), ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Signs a certificate of a client with this DNS name.
    pub(crate) fn client(&self, name: &str) -> Pair {
        self.sign(SanType::DnsName(name.try_into().unwrap()), ExtendedKeyUsagePurpose::ClientAuth)
    }

    pub(crate) fn sign(&self, name: SanType, purpose: ExtendedKeyUsagePurpose) -> Pair {
        let mut params = CertificateParams::new([]).unwrap();
        params.subject_alt_names = vec![name];
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        Pair { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}
