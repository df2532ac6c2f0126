//! Gateways that recognise each other by certificates.

pub(super) mod rotation;
mod websockets;

use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use weir_gateway::{CertificateFiles, PeerTls, PeerTlsError, PeerTrust};

use super::*;
use crate::client::read;

/// The name of all gateways.
const NAME: &str = "weir-gateway";

/// Time at which the certificates of these tests are valid: 2027, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

/// Expected statuses if no request fails.
const NONE: [StatusCode; 0] = [];

/// An authority of gateways.
pub(super) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// The content of a gateway's files.
#[derive(Clone)]
pub(super) struct Files {
    certificate: String,
    key: String,
    authorities: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str, purposes: Vec<ExtendedKeyUsagePurpose>) -> Files {
        self.sign_with(name, purposes, |_| {})
    }

    fn sign_with(
        &self,
        name: &str,
        purposes: Vec<ExtendedKeyUsagePurpose>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Files {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages = purposes;
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Files { certificate, key: key.serialize_pem(), authorities: self.pem.clone() }
    }

    pub(super) fn gateway(&self) -> Files {
        self.sign(NAME, vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth])
    }
}

impl Files {
    fn trusting(self, authorities: &str) -> Self {
        Self { authorities: authorities.to_owned(), ..self }
    }

    fn all(&self) -> CertificateFiles<'_> {
        CertificateFiles {
            certificate: self.certificate.as_bytes(),
            key: self.key.as_bytes(),
            authorities: self.authorities.as_bytes(),
        }
    }

    pub(super) fn tls(&self, trust: PeerTrust) -> Result<Arc<PeerTls>, PeerTlsError> {
        PeerTls::new(NAME, trust, self.all(), NOW)
    }
}

/// Two gateways in front of a replica that takes one request at a time, so that one of them owns the queue. Only the
/// client with the first key may use it.
struct Pair {
    world: World,
    replica: TestReplica,
}

impl Pair {
    async fn new(peers: [Option<Arc<PeerTls>>; 2]) -> Self {
        let mut world = World::new(0).await;
        for (number, peers) in peers.into_iter().enumerate() {
            let mut options = Options::new(&format!("gateway-{number}"), Scope::Local);
            let policy = policy(vec![written(1, "team-a")], vec![rule("team-a", &["*"], &[])]);
            options.access = Some(AccessControl::new(policy));
            options.peers = peers;
            world.add(options).await;
        }
        world.serve_limited(&[100], Some(1), |_| {}).await;
        let replica = world.start(1, "a", Behaviour::Work(Duration::from_millis(1))).await;
        Self { world, replica }
    }

    fn address(&self, gateway: usize) -> std::net::SocketAddr {
        self.world.gateways[gateway].address
    }
}

fn infer() -> Request<Full<Bytes>> {
    with(post(HOST, "/v2/models/digits/infer", "x"), "x-api-key", &key(1).text)
}

/// Returns a request as a gateway hands it over: checked, without its key.
fn handed_over() -> Request<Full<Bytes>> {
    with(with(post(HOST, "/v2/models/digits/infer", "x"), "weir-hop", "1"), "weir-client", "team-a")
}

/// Sends requests one after the other, and returns the statuses that are not 200.
async fn send(address: std::net::SocketAddr, requests: usize) -> Vec<StatusCode> {
    let mut failed = Vec::new();
    for _ in 0..requests {
        let answer = once(address, infer()).await;
        failed.extend(Some(answer.status).filter(|status| *status != StatusCode::OK));
    }
    failed
}

#[tokio::test]
async fn requests_are_handed_over_by_certificate_over_http_and_grpc() {
    let authority = Authority::new("first");
    let tls = || authority.gateway().tls(PeerTrust::Certificate).unwrap();
    let pair = Pair::new([Some(tls()), Some(tls())]).await;
    for gateway in [0, 1] {
        assert_eq!(send(pair.address(gateway), 5).await, NONE);
        let mut sender = connect_h2(pair.address(gateway)).await;
        let request = Request::post(format!("http://{HOST}/inference.GRPCInferenceService/ModelInfer"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("x-api-key", key(1).text)
            .body(Full::new(Bytes::from_static(b"\0\0\0\0\0")));
        let answer = sender.send_request(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let refused = answer.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
        assert!(!matches!(refused.as_deref(), Some("7" | "14" | "16")), "{refused:?}");
    }
    let heads = pair.replica.seen.heads.lock();
    assert_eq!(heads.len(), 12);
    assert!(heads.iter().all(|head| head.headers["weir-client"] == "team-a"));
}

/// All gateways and clients of these tests have the address 127.0.0.1.
#[tokio::test]
async fn an_address_is_trusted_only_without_certificates_or_while_some_gateways_have_none() {
    let authority = Authority::new("first");
    for (trust, expected) in [
        (None, StatusCode::OK),
        (Some(PeerTrust::CertificateOrAddress), StatusCode::OK),
        (Some(PeerTrust::Certificate), StatusCode::UNAUTHORIZED),
    ] {
        let tls = || trust.map(|trust| authority.gateway().tls(trust).unwrap());
        let pair = Pair::new([tls(), tls()]).await;
        let answers = [once(pair.address(0), handed_over()).await, once(pair.address(1), handed_over()).await];
        // Only the gateway that owns the queue serves a request that was handed over.
        assert!(answers.iter().any(|answer| answer.status == expected), "{trust:?}: {answers:?}");
        if trust == Some(PeerTrust::Certificate) {
            assert!(answers.iter().all(|answer| answer.status == expected), "{answers:?}");
        }
    }
}

/// Opens a connection over TLS with these files; `None` if it is refused.
async fn connected(
    address: std::net::SocketAddr,
    files: Option<&Files>,
    server: &Authority,
) -> Option<http1::SendRequest<Full<Bytes>>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.pem.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match files {
        Some(files) => {
            let chain = vec![CertificateDer::from_pem_slice(files.certificate.as_bytes()).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(files.key.as_bytes()).unwrap()).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(NAME.try_into().unwrap(), stream).await.ok()?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    Some(sender)
}

/// Sends a request that claims to be handed over, over TLS with these files; `None` if the connection is refused.
async fn claim(address: std::net::SocketAddr, files: Option<&Files>, server: &Authority) -> Option<StatusCode> {
    let mut sender = connected(address, files, server).await?;
    let answer = sender.send_request(handed_over()).await.ok()?;
    let status = answer.status();
    answer.into_body().collect().await.ok()?;
    Some(status)
}

#[tokio::test]
async fn only_the_certificate_of_a_gateway_is_trusted() {
    let (authority, other) = (Authority::new("first"), Authority::new("second"));
    let purposes = || vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let pair = Pair::new([
        Some(authority.gateway().tls(PeerTrust::Certificate).unwrap()),
        Some(authority.gateway().tls(PeerTrust::Certificate).unwrap()),
    ]);
    let pair = pair.await;
    let cases = [
        (Some(other.gateway()), None),
        (None, None),
        (Some(authority.sign(NAME, vec![ExtendedKeyUsagePurpose::ServerAuth])), None),
        (Some(authority.sign_with(NAME, purposes(), |params| params.not_after = date_time_ymd(2020, 1, 1))), None),
        (Some(authority.sign_with(NAME, purposes(), |params| params.not_before = date_time_ymd(2090, 1, 1))), None),
        (Some(authority.sign("webhook", purposes())), Some(StatusCode::UNAUTHORIZED)),
    ];
    for (number, (files, expected)) in cases.into_iter().enumerate() {
        for gateway in [0, 1] {
            assert_eq!(claim(pair.address(gateway), files.as_ref(), &authority).await, expected, "case {number}");
        }
    }
    assert_eq!(pair.replica.requests(), 0);
    let own = authority.gateway();
    let accepted =
        [claim(pair.address(0), Some(&own), &authority).await, claim(pair.address(1), Some(&own), &authority).await];
    assert!(accepted.contains(&Some(StatusCode::OK)), "{accepted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_authorities_are_replaced_under_load() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let tls = [(); 2].map(|()| first.gateway().tls(PeerTrust::Certificate).unwrap());
    let pair = Pair::new([Some(Arc::clone(&tls[0])), Some(Arc::clone(&tls[1]))]).await;
    let sending = (0..8).map(|client| tokio::spawn(send(pair.address(client % 2), 100)));
    let sending: Vec<_> = sending.collect();
    let both = format!("{}{}", first.pem, second.pem);
    let steps = [first.gateway(), first.gateway().trusting(&both), second.gateway().trusting(&both), second.gateway()];
    for step in steps {
        for one in &tls {
            let before = pair.replica.requests();
            one.replace(step.all(), NOW).unwrap();
            until("requests after the change", || pair.replica.requests() > before + 10).await;
        }
    }
    for sending in sending {
        assert_eq!(sending.await.unwrap(), NONE);
    }
}

/// The client of such a request has a valid key, so it must not be refused: the sender opens another connection.
#[tokio::test]
async fn a_connection_whose_authority_was_removed_hands_nothing_over_and_closes() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let tls = [(); 2].map(|()| first.gateway().tls(PeerTrust::Certificate).unwrap());
    let pair = Pair::new([Some(Arc::clone(&tls[0])), Some(Arc::clone(&tls[1]))]).await;
    for (gateway, tls) in tls.iter().enumerate() {
        let mut sender = connected(pair.address(gateway), Some(&first.gateway()), &first).await.unwrap();
        let before = read(sender.send_request(handed_over()).await.unwrap()).await.unwrap();
        // Only one of the gateways owns the queue.
        assert!(before.status == StatusCode::OK || before.header("weir-unserved") == "1", "{before:?}");
        let served = pair.replica.requests();
        tls.replace(second.gateway().all(), NOW).unwrap();
        sender.ready().await.unwrap();
        let after = read(sender.send_request(handed_over()).await.unwrap()).await.unwrap();
        let found = (after.status, after.header("weir-unserved"), after.header("connection"));
        assert_eq!(found, (StatusCode::SERVICE_UNAVAILABLE, "1", "close"));
        assert_eq!(pair.replica.requests(), served);
    }
    for gateway in [0, 1] {
        assert_eq!(send(pair.address(gateway), 5).await, NONE);
    }
}

/// One gateway has the new files, and the other one does not have them yet: its requests wait for them.
#[tokio::test]
async fn requests_wait_while_only_one_gateway_has_the_new_authority() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    for early in [0, 1] {
        let tls = [(); 2].map(|()| first.gateway().tls(PeerTrust::Certificate).unwrap());
        let pair = Pair::new([Some(Arc::clone(&tls[0])), Some(Arc::clone(&tls[1]))]).await;
        for gateway in [0, 1] {
            assert_eq!(send(pair.address(gateway), 5).await, NONE);
        }
        tls[early].replace(second.gateway().all(), NOW).unwrap();
        let sending = [0, 1].map(|gateway| tokio::spawn(send(pair.address(gateway), 5)));
        until("the owner of the queue to serve its requests", || pair.replica.requests() >= 15).await;
        tls[1 - early].replace(second.gateway().all(), NOW).unwrap();
        for sending in sending {
            assert_eq!(sending.await.unwrap(), NONE, "gateway {early} is early");
        }
    }
}

#[tokio::test]
async fn a_gateway_without_certificates_is_served_while_it_is_allowed() {
    let authority = Authority::new("first");
    let pair = Pair::new([Some(authority.gateway().tls(PeerTrust::CertificateOrAddress).unwrap()), None]).await;
    for gateway in [0, 1] {
        assert_eq!(send(pair.address(gateway), 5).await, NONE);
    }
    assert_eq!(pair.replica.requests(), 10);
}

/// The controllers make the certificates when gateways run already.
#[tokio::test]
async fn certificates_that_are_made_later_are_used() {
    let authority = Authority::new("first");
    let tls = [(); 2].map(|()| PeerTls::without_files(NAME, PeerTrust::CertificateOrAddress).unwrap());
    let pair = Pair::new([Some(Arc::clone(&tls[0])), Some(Arc::clone(&tls[1]))]).await;
    let both = async |requests| {
        for gateway in [0, 1] {
            assert_eq!(send(pair.address(gateway), requests).await, NONE);
        }
    };
    both(5).await;
    // Until the second gateway has a certificate, it is reached without TLS.
    tls[0].replace(authority.gateway().all(), NOW).unwrap();
    both(5).await;
    tls[1].replace(authority.gateway().all(), NOW).unwrap();
    both(5).await;
    let own = authority.gateway();
    for gateway in [0, 1] {
        let accepted = claim(pair.address(gateway), Some(&own), &authority).await;
        assert!(accepted.is_some(), "gateway {gateway} speaks TLS");
    }
}

#[tokio::test]
async fn a_gateway_without_a_certificate_accepts_and_sends_nothing_if_only_certificates_count() {
    let authority = Authority::new("first");
    let tls = [(); 2].map(|()| PeerTls::without_files(NAME, PeerTrust::Certificate).unwrap());
    let pair = Pair::new([Some(Arc::clone(&tls[0])), Some(Arc::clone(&tls[1]))]).await;
    for gateway in [0, 1] {
        assert_eq!(once(pair.address(gateway), handed_over()).await.status, StatusCode::UNAUTHORIZED);
        assert_eq!(claim(pair.address(gateway), Some(&authority.gateway()), &authority).await, None);
    }
    // Requests wait for the certificates.
    let waiting = [0, 1].map(|gateway| tokio::spawn(once(pair.address(gateway), infer())));
    until("the owner of the queue to serve its request", || pair.replica.requests() == 1).await;
    for one in &tls {
        one.replace(authority.gateway().all(), NOW).unwrap();
    }
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().status, StatusCode::OK);
    }
}

#[test]
fn files_that_other_gateways_would_refuse_are_refused_at_the_start() {
    let (authority, other) = (Authority::new("first"), Authority::new("second"));
    let error = |files: &Files| files.tls(PeerTrust::Certificate).unwrap_err().to_string();
    let refused = "other gateways refuse the certificate";
    assert!(error(&authority.gateway().trusting(&other.pem)).starts_with(refused));
    assert!(error(&authority.sign("webhook", Vec::new())).starts_with(refused));
    assert!(error(&authority.sign(NAME, vec![ExtendedKeyUsagePurpose::ServerAuth])).starts_with(refused));
    let mixed = Files { key: authority.gateway().key, ..authority.gateway() };
    assert!(error(&mixed).starts_with("the certificate and its key cannot be used"), "{}", error(&mixed));
    let broken = Files { key: String::new(), ..authority.gateway() };
    assert!(error(&broken).starts_with("the key cannot be read as PEM"), "{}", error(&broken));
    // The certificates of rcgen are valid until the year 4096.
    let late = PeerTls::new(NAME, PeerTrust::Certificate, authority.gateway().all(), 68_000_000_000).unwrap_err();
    assert!(late.to_string().starts_with(refused), "{late}");
}
