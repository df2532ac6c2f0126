//! Replicas that serve TLS, with certificates that name their revisions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{Activity, Route, Transport};
use weir_gateway::{CertificateFiles, Options, ReplicaTls, Scope};

use crate::client::{Answered, connect_h2, once, post};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, World, revision, until};

/// The URI in the certificates of the first revision's replicas.
const FIRST: &str = "weir://default/digits-predictor-00001";

/// The URI in those of the second revision.
const SECOND: &str = "weir://default/digits-predictor-00002";

/// An authority of replicas and gateways.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
struct Pair {
    certificate: String,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    fn sign(&self, names: &[SanType], purpose: ExtendedKeyUsagePurpose) -> Pair {
        let mut params = CertificateParams::new([]).unwrap();
        params.subject_alt_names = names.to_vec();
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        Pair { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    fn replica(&self, uri: &str) -> Pair {
        self.sign(&[SanType::URI(uri.try_into().unwrap())], ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Gives a gateway a certificate of this authority. The gateway trusts the authorities in `trusted`.
    fn certify(&self, tls: &ReplicaTls, trusted: &str) {
        let name = SanType::DnsName("weir-gateway".try_into().unwrap());
        let pair = self.sign(&[name], ExtendedKeyUsagePurpose::ClientAuth);
        let (certificate, key) = (pair.certificate.as_bytes(), pair.key.as_bytes());
        tls.replace(CertificateFiles { certificate, key, authorities: trusted.as_bytes() }).unwrap();
    }
}

/// A port that ends TLS in front of a replica.
struct TlsReplica {
    address: SocketAddr,
    replica: TestReplica,
    _serving: AbortOnDropHandle<()>,
}

impl TlsReplica {
    /// Starts a replica with this certificate, which accepts clients of the authorities in `clients`.
    async fn start(pair: &Pair, clients: &str) -> Self {
        let replica = TestReplica::start(Behaviour::Work(Duration::from_millis(1))).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(server(pair, clients));
        let serving = tokio::spawn(end_tls(listener, acceptor, replica.address));
        Self { address, replica, _serving: AbortOnDropHandle::new(serving) }
    }
}

fn server(pair: &Pair, clients: &str) -> Arc<ServerConfig> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(clients.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let config = config.with_client_cert_verifier(verifier.build().unwrap()).with_single_cert(chain, key);
    Arc::new(config.unwrap())
}

async fn end_tls(listener: TcpListener, acceptor: TlsAcceptor, replica: SocketAddr) {
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let mut client = acceptor.accept(stream).await.ok()?;
            let mut plain = TcpStream::connect(replica).await.ok()?;
            plain.set_nodelay(true).ok()?;
            tokio::io::copy_bidirectional(&mut client, &mut plain).await.ok()
        });
    }
}

/// Returns a world with one gateway, in front of one or two revisions whose replicas serve TLS.
async fn world(tls: Option<&Arc<ReplicaTls>>, weights: &[u32]) -> World {
    world_with(tls, weights, |_| {}).await
}

/// Returns a world whose requests wait for a second at most.
async fn impatient_world(tls: Option<&Arc<ReplicaTls>>) -> World {
    world_with(tls, &[100], |route| route.activation_timeout = Duration::from_secs(1)).await
}

async fn world_with(tls: Option<&Arc<ReplicaTls>>, weights: &[u32], change: impl FnOnce(&mut Route)) -> World {
    let mut options = Options::new("gateway-0", Scope::Local);
    options.replicas = tls.cloned();
    let world = World::of(options).await;
    world.serve(weights, change).await;
    for number in 1..=weights.len() as u32 {
        world.fake.connect_by(&revision(number), Transport::Tls).unwrap();
    }
    world
}

fn certified(authority: &Authority) -> Arc<ReplicaTls> {
    let tls = Arc::<ReplicaTls>::default();
    authority.certify(&tls, &authority.pem);
    tls
}

async fn infer(world: &World) -> Answered {
    once(world.address(), post(HOST, "/v2/models/digits/infer", "x")).await
}

/// Sends a call over gRPC, and returns the head of the answer.
async fn called(world: &World) -> Response<Incoming> {
    let mut sender = connect_h2(world.address()).await;
    let request = Request::post(format!("http://{HOST}/inference.GRPCInferenceService/ModelInfer"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from_static(b"\0\0\0\0\0")));
    sender.send_request(request.unwrap()).await.unwrap()
}

/// Sends a call that is refused as unavailable, and returns the message.
async fn call_refused(world: &World) -> String {
    let answer = called(world).await;
    assert_eq!(answer.headers()["grpc-status"], "14", "{answer:?}");
    answer.headers()["grpc-message"].to_str().unwrap().to_owned()
}

async fn call(world: &World) -> StatusCode {
    let answer = called(world).await;
    let refused = answer.headers().get("grpc-status").cloned();
    assert!(refused.is_none_or(|status| status == "0"));
    let status = answer.status();
    answer.into_body().collect().await.unwrap();
    status
}

#[tokio::test]
async fn replicas_are_reached_by_tls_over_http_and_grpc() {
    let authority = Authority::new("ours");
    let world = world(Some(&certified(&authority)), &[100]).await;
    let one = TlsReplica::start(&authority.replica(FIRST), &authority.pem).await;
    world.put(1, "a", one.address).await;
    for _ in 0..3 {
        assert_eq!(infer(&world).await.status, StatusCode::OK);
        assert_eq!(call(&world).await, StatusCode::OK);
    }
    assert_eq!(one.replica.requests(), 6);
}

/// The address of the replica `a` is now that of another revision's replica, and the gateway has not learnt it yet.
#[tokio::test]
async fn requests_for_an_address_that_another_revision_has_taken_go_to_another_replica() {
    let authority = Authority::new("ours");
    let world = world(Some(&certified(&authority)), &[100]).await;
    let other = TlsReplica::start(&authority.replica(SECOND), &authority.pem).await;
    let right = TlsReplica::start(&authority.replica(FIRST), &authority.pem).await;
    world.put(1, "a", other.address).await;
    world.put(1, "b", right.address).await;
    for _ in 0..10 {
        assert_eq!(infer(&world).await.status, StatusCode::OK);
        assert_eq!(call(&world).await, StatusCode::OK);
    }
    assert_eq!((other.replica.requests(), right.replica.requests()), (0, 20));
}

#[tokio::test]
async fn revisions_share_no_connection() {
    let authority = Authority::new("ours");
    let world = world(Some(&certified(&authority)), &[50, 50]).await;
    let replicas = [
        TlsReplica::start(&authority.replica(FIRST), &authority.pem).await,
        TlsReplica::start(&authority.replica(SECOND), &authority.pem).await,
    ];
    world.put(1, "a", replicas[0].address).await;
    world.put(2, "a", replicas[1].address).await;
    for _ in 0..40 {
        assert_eq!(infer(&world).await.status, StatusCode::OK);
    }
    let counts = replicas.each_ref().map(|one| one.replica.requests());
    assert_eq!(counts.iter().sum::<usize>(), 40);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// Sends a request that no replica may get, and returns the text of the answer.
async fn refused(world: &World, one: &TlsReplica) -> String {
    let answer = infer(world).await;
    assert!(answer.status.is_server_error(), "{answer:?}");
    assert_eq!(one.replica.requests(), 0);
    answer.text().to_owned()
}

#[tokio::test]
async fn only_the_exact_name_by_the_right_authority_is_accepted() {
    let (authority, stranger) = (Authority::new("ours"), Authority::new("others"));
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let dns = |text: &str| SanType::DnsName(text.try_into().unwrap());
    let of = |names: &[SanType]| authority.sign(names, ExtendedKeyUsagePurpose::ServerAuth);
    let cases = [
        (
            of(&[uri("weir://other/digits-predictor-00001")]),
            "its certificate is that of weir://other/digits-predictor-00001",
        ),
        (of(&[uri(SECOND)]), "and not of weir://default/digits-predictor-00001"),
        (of(&[uri(FIRST), uri(SECOND)]), "its certificate has not exactly one name"),
        (of(&[uri(FIRST), dns("example.com")]), "its certificate has not exactly one name"),
        (of(&[dns("digits-predictor-00001.default.weir")]), "its certificate has not exactly one name"),
        (of(&[]), "its certificate has not exactly one name"),
        (authority.sign(&[uri(FIRST)], ExtendedKeyUsagePurpose::ClientAuth), "by TLS: invalid peer certificate"),
        (stranger.replica(FIRST), "by TLS: invalid peer certificate: UnknownIssuer"),
    ];
    let world = impatient_world(Some(&certified(&authority))).await;
    for (number, (pair, expected)) in cases.iter().enumerate() {
        let one = TlsReplica::start(pair, &authority.pem).await;
        world.put(1, "a", one.address).await;
        let text = refused(&world, &one).await;
        assert!(text.contains(expected), "case {number}: {text}");
    }
}

/// The activation timeout is longer than the test may run, and neither replica can ever be the right one.
#[tokio::test]
async fn certificates_that_stay_wrong_are_reported_long_before_the_activation_timeout() {
    let (authority, stranger) = (Authority::new("ours"), Authority::new("others"));
    let long = Duration::from_secs(600);
    let world = world_with(Some(&certified(&authority)), &[100], |route| route.activation_timeout = long).await;
    let one = TlsReplica::start(&stranger.replica(FIRST), &authority.pem).await;
    let other = TlsReplica::start(&authority.replica(SECOND), &authority.pem).await;
    world.put(1, "a", one.address).await;
    world.put(1, "b", other.address).await;
    let answers =
        tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(infer(&world), call_refused(&world)) });
    let (answer, message) = answers.await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    // The last attempt may have been at either replica. A message over gRPC is percent-encoded, so no cause has a space.
    for text in [answer.text(), &message] {
        let causes = ["UnknownIssuer", "weir://default/digits-predictor-00002"];
        assert!(causes.iter().any(|cause| text.contains(cause)), "{text}");
    }
    assert_eq!((one.replica.requests(), other.replica.requests()), (0, 0));
    let reported = [("a", "UnknownIssuer"), ("b", "and not of weir://default/digits-predictor-00001")];
    let is_reported = |activity: &Activity| {
        reported
            .iter()
            .all(|(name, cause)| activity.untrusted.get(*name).is_some_and(|because| because.contains(cause)))
    };
    world.activity(1, is_reported).await;
    let right = TlsReplica::start(&authority.replica(FIRST), &authority.pem).await;
    world.put(1, "c", right.address).await;
    assert_eq!(infer(&world).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_gateway_without_a_certificate_sends_no_request_plainly() {
    let authority = Authority::new("ours");
    let one = TlsReplica::start(&authority.replica(FIRST), &authority.pem).await;
    for (tls, expected) in [
        (None, "this gateway has no certificate for replicas (--replica-secret)"),
        (Some(Arc::default()), "this gateway has no certificate yet"),
    ] {
        let world = impatient_world(tls.as_ref()).await;
        world.put(1, "a", one.address).await;
        let text = refused(&world, &one).await;
        assert!(text.contains(expected), "{text}");
        // A replica without TLS is not the one that the cluster has recorded.
        world.put(1, "a", one.replica.address).await;
        refused(&world, &one).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_both_sides_are_replaced_under_load() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let tls = certified(&first);
    let both = format!("{}{}", first.pem, second.pem);
    let world = Arc::new(world(Some(&tls), &[100]).await);
    let replicas =
        [TlsReplica::start(&first.replica(FIRST), &both).await, TlsReplica::start(&second.replica(FIRST), &both).await];
    world.put(1, "a", replicas[0].address).await;
    let clients = (0..8).map(|_| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            for _ in 0..100 {
                assert_eq!(infer(&world).await.status, StatusCode::OK);
                assert_eq!(call(&world).await, StatusCode::OK);
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    for (step, authority) in [&first, &second, &first, &second].into_iter().enumerate() {
        let count = || replicas.iter().map(|one| one.replica.requests()).sum::<usize>();
        let before = count();
        authority.certify(&tls, &both);
        world.put(1, if step % 2 == 0 { "b" } else { "a" }, replicas[(step + 1) % 2].address).await;
        until("requests after the change", || count() > before + 10).await;
    }
    for client in clients {
        client.await.unwrap();
    }
}
