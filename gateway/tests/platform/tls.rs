//! Tests of ports with TLS.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use weir_gateway::{Options, Scope, ServerTls};

use crate::client::{once, post, read};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World};

/// A world whose gateways have a TLS port, and the certificate that clients trust.
struct Encrypted {
    world: World,
    certificate: CertificateDer<'static>,
    replica: TestReplica,
}

/// Creates a certificate for localhost, and the TLS of a port that uses it.
pub(crate) fn certificate() -> (CertificateDer<'static>, ServerTls) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let pair = CertifiedKey::from_der(vec![certificate.clone()], key, &ring::default_provider()).unwrap();
    let tls = ServerTls::new(Arc::new(SingleCertAndKey::from(pair))).unwrap();
    (certificate, tls)
}

impl Encrypted {
    async fn new(behaviour: Behaviour, change: impl FnOnce(&mut Options)) -> Self {
        let (certificate, tls) = certificate();
        let mut options = Options::new("gateway", Scope::Local);
        change(&mut options);
        let mut world = World::new(0).await;
        world.add_with(options, Some(tls)).await;
        world.serve(&[100], |_| {}).await;
        let replica = world.start(1, "a", behaviour).await;
        Self { world, certificate, replica }
    }

    /// Starts two gateways in front of a replica that takes one request at a time, so that one of them owns the queue.
    async fn pair() -> Self {
        let (certificate, tls) = certificate();
        let mut world = World::new(0).await;
        for name in ["gateway-0", "gateway-1"] {
            let options = Options::new(name, Scope::Local);
            world.add_with(options, Some(tls.clone())).await;
        }
        world.serve_limited(&[100], Some(1), |_| {}).await;
        let replica = world.start(1, "a", Behaviour::Work(Duration::from_millis(1))).await;
        Self { world, certificate, replica }
    }

    /// Connects to the first gateway with this ALPN protocol.
    async fn connect(&self, protocol: &str) -> TlsStream<TcpStream> {
        self.connect_to(0, protocol).await
    }

    /// Connects to the gateway with this index, with this ALPN protocol.
    async fn connect_to(&self, gateway: usize, protocol: &str) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let address = self.world.gateways[gateway].encrypted.unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await.unwrap();
        let agreed = stream.get_ref().1.alpn_protocol();
        assert_eq!(agreed, Some(protocol.as_bytes()));
        stream
    }

    async fn plain(&self) -> TcpStream {
        let address = self.world.gateways[0].encrypted.unwrap();
        TcpStream::connect(address).await.unwrap()
    }
}

#[tokio::test]
async fn http1_is_agreed_on_and_answered() {
    let encrypted = Encrypted::new(Behaviour::Echo(Duration::ZERO), |_| {}).await;
    let io = TokioIo::new(encrypted.connect("http/1.1").await);
    let (mut sender, connection) = http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let answer = sender.send_request(post(HOST, "/", "hi")).await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_11);
    let answer = read(answer).await.unwrap();
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "hi"));
}

#[tokio::test]
async fn h2_is_agreed_on_and_answered() {
    let encrypted = Encrypted::new(Behaviour::Echo(Duration::ZERO), |_| {}).await;
    let io = TokioIo::new(encrypted.connect("h2").await);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("https://{HOST}/"));
    let request = request.body(Full::new(Bytes::from_static(b"hi"))).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_2);
    let answer = read(answer).await.unwrap();
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "hi"));
}

#[tokio::test]
async fn grpc_is_answered_with_its_trailers() {
    let encrypted = Encrypted::new(Behaviour::Mirror, |_| {}).await;
    let io = TokioIo::new(encrypted.connect("h2").await);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let message = Bytes::from_static(b"\0\0\0\0\x02hi");
    let request = Request::post(format!("https://{HOST}/a.Service/Call"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(message.clone()))
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let body = answer.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(body.to_bytes(), message);
}

#[tokio::test]
async fn a_slow_handshake_times_out_and_frees_its_connection() {
    let encrypted = Encrypted::new(Behaviour::Echo(Duration::ZERO), |options| {
        options.handshake_timeout = Duration::from_millis(300);
        options.connections.total = 1;
    });
    let encrypted = encrypted.await;
    let mut silent = encrypted.plain().await;
    let mut begun = encrypted.plain().await;
    // The beginning of the first record of a handshake.
    begun.write_all(&[22, 3, 1, 0, 200, 1]).await.unwrap();
    let answered = async {
        let io = TokioIo::new(encrypted.connect("http/1.1").await);
        let (mut sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let answer = sender.send_request(post(HOST, "/", "hi")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    };
    tokio::time::timeout(TEST_TIMEOUT, answered).await.unwrap();
    for stream in [&mut silent, &mut begun] {
        let read = tokio::time::timeout(TEST_TIMEOUT, stream.read(&mut [0; 64])).await;
        assert_eq!(read.unwrap().unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn a_client_without_tls_is_disconnected() {
    let encrypted = Encrypted::new(Behaviour::Echo(Duration::ZERO), |_| {}).await;
    let mut stream = encrypted.plain().await;
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    // The connection is closed, or reset because of unread data.
    let _ = tokio::time::timeout(TEST_TIMEOUT, read).await.unwrap();
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

/// Sends requests one after the other over one connection to this gateway, checks that each answer equals its request,
/// and returns the number of answers.
async fn send(encrypted: Arc<Encrypted>, gateway: usize, requests: usize) -> usize {
    let io = TokioIo::new(encrypted.connect_to(gateway, "http/1.1").await);
    let (mut sender, connection) = http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    for number in 0..requests {
        let said = format!("{gateway} {number}");
        let answer = sender.send_request(post(HOST, "/", said.clone())).await;
        let answer = read(answer.unwrap()).await.unwrap();
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, &*said));
    }
    requests
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_over_tls_are_handed_over() {
    let encrypted = Arc::new(Encrypted::pair().await);
    let sending = (0..8).map(|client| tokio::spawn(send(Arc::clone(&encrypted), client % 2, 50)));
    let mut answered = 0;
    for sending in sending.collect::<Vec<_>>() {
        answered += sending.await.unwrap();
    }
    assert_eq!((answered, encrypted.replica.requests()), (400, 400));
    assert_eq!(encrypted.replica.seen.most.load(Ordering::SeqCst), 1);
}

/// A proxy that ends TLS in front of the gateways speaks HTTP to them, and describes its client in forwarding headers.
#[tokio::test]
async fn forwarding_headers_reach_the_replica_over_a_hand_over() {
    let encrypted = Encrypted::pair().await;
    let forwarded = [
        ("x-forwarded-proto", "https"),
        ("x-forwarded-for", "203.0.113.9, 10.0.0.1"),
        ("x-forwarded-host", "digits-default.example.com"),
        ("forwarded", "for=203.0.113.9;proto=https"),
    ];
    for gateway in &encrypted.world.gateways {
        let mut request = post(HOST, "/", "hi");
        for (name, value) in forwarded {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let answer = once(gateway.address, request).await;
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, "hi"));
    }
    let heads = encrypted.replica.seen.heads.lock();
    assert_eq!(heads.len(), 2);
    for head in &*heads {
        for (name, value) in forwarded {
            assert_eq!(head.headers[name], value);
        }
        assert_eq!(head.headers["host"], HOST);
    }
}
