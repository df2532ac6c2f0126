use std::path::PathBuf;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType, date_time_ymd,
};

use super::*;

/// Time of these tests, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

/// An authority with its key.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate for the client `ada`, valid for 100 s from [`NOW`] on.
    fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> Vec<CertificateDer<'static>> {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, "ada");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(NOW);
        params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(NOW + 100);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        vec![params.signed_by(&key, &self.issuer).unwrap().der().clone()]
    }

    fn entry(&self, client_from: CertificateName, prefix: &str) -> ClientAuthority {
        let settings = ClientCertificates { ca_file: PathBuf::new(), client_from, client_prefix: prefix.to_owned() };
        ClientAuthority::new(&settings, self.pem.as_bytes()).unwrap()
    }

    fn alone(&self) -> Arc<Authorities> {
        Arc::new(Authorities::new(vec![self.entry(CertificateName::CommonName, "")]).unwrap())
    }
}

type Named = Result<String, CertificateError>;

fn client(chain: &ClientChain, authorities: &Arc<Authorities>, now: u64) -> Option<Named> {
    let client = chain.client(authorities, now)?;
    Some(client.map(|caller| caller.client().unwrap().to_string()))
}

fn chain(certificates: &[CertificateDer<'static>]) -> ClientChain {
    ClientChain::new(Some(certificates)).unwrap()
}

fn is_untrusted(client: Option<Named>) -> bool {
    matches!(client, Some(Err(CertificateError::Untrusted(_))))
}

#[test]
fn the_configured_field_has_the_clients_name() {
    let authority = Authority::new();
    let of = |names: Vec<SanType>, from| {
        let certificate = authority.sign(|params| params.subject_alt_names = names);
        let authorities = Arc::new(Authorities::new(vec![authority.entry(from, "ca:")]).unwrap());
        client(&chain(&certificate), &authorities, NOW).unwrap()
    };
    let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let uri = |name: &str| SanType::URI(name.try_into().unwrap());
    let spiffe = "spiffe://example.com/batch";
    assert_eq!(of(vec![dns("b.example.com")], CertificateName::CommonName).as_deref(), Ok("ca:ada"));
    assert_eq!(of(vec![dns("b.example.com"), uri("u:x")], CertificateName::DnsName).as_deref(), Ok("ca:b.example.com"));
    assert_eq!(of(vec![uri(spiffe)], CertificateName::Uri).as_deref(), Ok("ca:spiffe://example.com/batch"));
    assert_eq!(of(vec![], CertificateName::DnsName), Err(CertificateError::Field("DNS name")));
    assert_eq!(of(vec![uri("u:x"), uri("u:y")], CertificateName::Uri), Err(CertificateError::Field("URI")));
    assert_eq!(of(vec![dns("*.example.com")], CertificateName::DnsName), Err(CertificateError::Name));
}

#[test]
fn no_certificate_gives_a_name_of_kubernetes_or_one_that_is_no_clients() {
    let authority = Authority::new();
    let of = |name: &str, prefix| {
        let named = authority.sign(|params| {
            params.distinguished_name.remove(DnType::CommonName);
            params.distinguished_name.push(DnType::CommonName, name);
        });
        let entry = authority.entry(CertificateName::CommonName, prefix);
        client(&chain(&named), &Arc::new(Authorities::new(vec![entry]).unwrap()), NOW).unwrap()
    };
    assert_eq!(of("system:serviceaccount:a:b", ""), Err(CertificateError::ReservedName));
    assert_eq!(of("tem:serviceaccount:a:b", "sys"), Err(CertificateError::ReservedName));
    for name in ["(anonymous)", "a b", "a\nb", "a,b", "a*", "é", ""] {
        assert_eq!(of(name, ""), Err(CertificateError::Name), "{name:?}");
    }
}

#[test]
fn a_certificate_is_refused_from_the_second_after_its_end_on() {
    let authority = Authority::new();
    let (authorities, certificate) = (authority.alone(), chain(&authority.sign(|_| {})));
    assert_eq!(client(&certificate, &authorities, NOW), Some(Ok("ada".to_owned())));
    assert_eq!(client(&certificate, &authorities, NOW + 100), Some(Ok("ada".to_owned())));
    assert!(is_untrusted(client(&certificate, &authorities, NOW + 101)));
    assert!(is_untrusted(client(&chain(&authority.sign(|_| {})), &authorities, NOW - 1)));
}

#[test]
fn a_certificate_of_another_authority_or_purpose_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let authorities = authority.alone();
    let server = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    };
    let ca = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    for certificate in [other.sign(|_| {}), authority.sign(server), authority.sign(ca)] {
        assert!(is_untrusted(client(&chain(&certificate), &authorities, NOW)));
    }
}

#[test]
fn new_authorities_decide_about_open_connections() {
    let (authority, other) = (Authority::new(), Authority::new());
    let certificate = chain(&authority.sign(|_| {}));
    assert_eq!(client(&certificate, &authority.alone(), NOW), Some(Ok("ada".to_owned())));
    assert!(is_untrusted(client(&certificate, &other.alone(), NOW)));
    let entries =
        vec![other.entry(CertificateName::CommonName, "o:"), authority.entry(CertificateName::CommonName, "a:")];
    let both = Arc::new(Authorities::new(entries).unwrap());
    assert_eq!(client(&certificate, &both, NOW), Some(Ok("a:ada".to_owned())));
    assert_eq!(client(&certificate, &Arc::default(), NOW), None);
}

#[test]
fn a_handshake_refuses_chains_above_the_limits() {
    let authority = Authority::new();
    let authorities = authority.alone();
    let verifier = authorities.handshakes.as_ref().unwrap();
    let own = authority.sign(|_| {}).remove(0);
    let accepts = |intermediates: &[CertificateDer<'static>]| {
        verifier.verify_client_cert(&own, intermediates, chain::time(NOW)).is_ok()
    };
    assert!(!verifier.client_auth_mandatory());
    assert!(accepts(&[]) && accepts(&vec![own.clone(); 7]));
    assert!(!accepts(&vec![own.clone(); 8]));
    assert!(!accepts(&[CertificateDer::from(vec![0; 16 << 10])]));
}

#[test]
fn a_file_without_authorities_is_refused() {
    let error =
        |pem: &str| ClientAuthority::new(&ClientCertificates::default(), pem.as_bytes()).unwrap_err().to_string();
    assert_eq!(error(""), "it holds no certificate in PEM");
    assert!(error("-----BEGIN CERTIFICATE-----\nAA").contains("cannot be read as PEM"), "{}", error("-----BEGIN"));
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(error(broken).contains("cannot be used"), "{}", error(broken));
}
