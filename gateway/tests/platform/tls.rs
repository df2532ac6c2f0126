//! The port behind TLS.

use std::sync::Arc;
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
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use weir_gateway::{Options, Scope};

use crate::client::{post, read};
use crate::replica::{Manner, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World};

/// A world whose gateway encrypts, and what its clients trust.
struct Encrypted {
    world: World,
    certificate: CertificateDer<'static>,
    _replica: TestReplica,
}

impl Encrypted {
    async fn new(manner: Manner, change: impl FnOnce(&mut Options)) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth();
        let mut config = config
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut options = Options::new("gateway", Scope::Local);
        options.tls = Some(Arc::new(config));
        change(&mut options);
        let mut world = World::new(0).await;
        world.add(options).await;
        let replica = TestReplica::start(manner).await;
        world.serve(&[100], |_| {}).await;
        world.put(1, "a", replica.address).await;
        Self {
            world,
            certificate,
            _replica: replica,
        }
    }

    /// A connection of a client that speaks this protocol.
    async fn connect(&self, protocol: &str) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.world.address()).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await.unwrap();
        let agreed = stream.get_ref().1.alpn_protocol();
        assert_eq!(agreed, Some(protocol.as_bytes()));
        stream
    }

    async fn plain(&self) -> TcpStream {
        TcpStream::connect(self.world.address()).await.unwrap()
    }
}

#[tokio::test]
async fn http1_is_agreed_on_and_answered() {
    let encrypted = Encrypted::new(Manner::Echo(Duration::ZERO), |_| {}).await;
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
    let encrypted = Encrypted::new(Manner::Echo(Duration::ZERO), |_| {}).await;
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
    let encrypted = Encrypted::new(Manner::Mirror, |_| {}).await;
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
async fn a_slow_handshake_is_cut_and_gives_its_place_free() {
    let encrypted = Encrypted::new(Manner::Echo(Duration::ZERO), |options| {
        options.handshake_timeout = Duration::from_millis(300);
        options.connections.total = 1;
    });
    let encrypted = encrypted.await;
    let mut silent = encrypted.plain().await;
    let mut begun = encrypted.plain().await;
    // The beginning of a handshake's first record.
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
async fn who_speaks_plain_is_closed() {
    let encrypted = Encrypted::new(Manner::Echo(Duration::ZERO), |_| {}).await;
    let mut stream = encrypted.plain().await;
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    // Closed, or reset for what nobody read.
    let _ = tokio::time::timeout(TEST_TIMEOUT, read).await.unwrap();
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}
