//! Tests of the port over TLS, without an API server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use prometheus_client::registry::Registry;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use weir_cluster_tls_port::{Callers, Purpose, Resolver, ServingPair, TlsPort};
use weir_controller::{Declaration, Platform};

use super::*;

/// Time at which certificates are valid, in seconds since 1970; it is in the past, as a wrong clock may be.
const NOW: u64 = 1_700_000_000;

struct TestPort {
    address: SocketAddr,
    authority: String,
    metrics: WebhookMetrics,
    _declaration: watch::Sender<Arc<Declaration>>,
    _stop: DropGuard,
}

impl TestPort {
    fn start() -> Self {
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        let pair = ServingPair::make(Purpose::Server, &["127.0.0.1".to_owned()], NOW, century).unwrap();
        let resolver = Arc::<Resolver>::default();
        assert!(resolver.serve_with(&pair));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = weir_serve::bind(address, weir_serve::PortUse::Exclusive);
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        let declaration = watch::Sender::new(Arc::<Declaration>::default());
        let platform = Platform::new("example.com");
        let rules = Rules::new(declaration.subscribe(), platform);
        let stop = CancellationToken::new();
        let port = TlsPort { listener, resolver, callers: Callers::Any, limits: LIMITS };
        let metrics = WebhookMetrics::default();
        tokio::spawn(port.serve(router(rules, metrics.clone()), stop.clone()));
        Self { address, authority: pair.authority, metrics, _declaration: declaration, _stop: stop.drop_guard() }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap();
        roots.add(authority).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tcp = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, tcp).await.unwrap()
    }

    /// Returns status and body of the response to a request.
    async fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> (StatusCode, String) {
        let io = TokioIo::new(self.connect().await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("host", "webhook").body(Full::new(Bytes::from(body)));
        let response = sender.send_request(request.unwrap()).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }
}

impl TestPort {
    /// Returns the numbers of requests that were allowed, refused, and without a verdict, by the metrics.
    fn counted(&self) -> [u64; 3] {
        let mut registry = Registry::default();
        self.metrics.register(&mut registry);
        let text = weir_ops::registry::text(&registry).unwrap();
        let value = |name: String| {
            let line = text.lines().find_map(|line| line.strip_prefix(&name));
            line.unwrap().trim().parse().unwrap()
        };
        let outcomes = ["allowed", "refused", "error"];
        let counts = outcomes.map(|outcome| value(format!("weir_webhook_requests_total{{outcome=\"{outcome}\"}}")));
        let timed = value("weir_webhook_duration_seconds_count".to_owned());
        assert_eq!(counts.iter().sum::<u64>(), timed);
        counts
    }
}

fn review(spec: &Value) -> Vec<u8> {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "name": "digits", "namespace": "team", "operation": "CREATE",
        "kind": {"group": "serving.kserve.io", "version": "v1beta1", "kind": "InferenceService"},
        "object": {"metadata": {"name": "digits", "namespace": "team"}, "spec": spec},
    }});
    review.to_string().into_bytes()
}

fn good() -> Vec<u8> {
    let container = json!({"name": "kserve-container", "image": "example/server:1"});
    review(&json!({"predictor": {"containers": [container]}}))
}

async fn is_allowed(port: &TestPort) {
    let (status, body) = port.ask(Method::POST, PATH, good()).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["response"]["uid"], "u");
    assert_eq!(body["response"]["allowed"], true, "{body}");
}

#[tokio::test]
async fn reviews_are_answered_and_other_requests_are_refused() {
    let port = TestPort::start();
    is_allowed(&port).await;
    let bad = review(&json!({"predictor": {"containers": []}}));
    let (status, body) = port.ask(Method::POST, PATH, bad).await;
    assert_eq!(status, StatusCode::OK);
    assert!(body.contains("\"allowed\":false"), "{body}");
    for body in [&b""[..], b"{}", b"[[[[", b"\xff\xfe", b"null"] {
        let (status, message) = port.ask(Method::POST, PATH, body.to_vec()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(message.contains("no AdmissionReview"), "{message}");
    }
    assert_eq!(port.counted(), [1, 1, 5]);
    let (status, _) = port.ask(Method::GET, PATH, Vec::new()).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    let (status, _) = port.ask(Method::POST, "/other", good()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    is_allowed(&port).await;
}

#[tokio::test]
async fn nested_and_large_objects_are_cheap_to_check() {
    let port = TestPort::start();
    let deep = [vec![b'['; 1 << 16], vec![b']'; 1 << 16]].concat();
    let (status, _) = port.ask(Method::POST, PATH, deep).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let mut nested = json!({});
    for _ in 0..60 {
        nested = json!({ "a": nested });
    }
    let (status, body) = port.ask(Method::POST, PATH, review(&nested)).await;
    assert_eq!(status, StatusCode::OK);
    assert!(body.contains("unknown field"), "{body}");
    let wide: serde_json::Map<_, _> = (0..5_000).map(|i| (format!("f{i}"), json!(1))).collect();
    let (status, body) = port.ask(Method::POST, PATH, review(&Value::Object(wide))).await;
    assert_eq!(status, StatusCode::OK);
    assert!(body.len() < 100_000, "{}", body.len());
    let many = review(&json!({"a": vec![0; MAX_VALUES]}));
    let (status, body) = port.ask(Method::POST, PATH, many).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body.contains("at most 300000 values"), "{body}");
    let (status, _) = port.ask(Method::POST, PATH, vec![b' '; MAX_BODY + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    is_allowed(&port).await;
}

/// More clients than there are connection slots send nothing, or bytes that are not TLS. All are disconnected within
/// the handshake's timeout, and reviews are answered afterwards.
#[tokio::test]
async fn silent_clients_and_noise_keep_no_connection_slots() {
    let port = TestPort::start();
    let mut clients = Vec::new();
    for number in 0..LIMITS.per_client {
        let mut tcp = TcpStream::connect(port.address).await.unwrap();
        if number % 2 == 0 {
            tcp.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        }
        clients.push(tcp);
    }
    for mut tcp in clients {
        let mut rest = Vec::new();
        let ended = tcp.read_to_end(&mut rest);
        let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
        assert!(ended.is_ok(), "the connection stays");
    }
    is_allowed(&port).await;
}

/// A body that is announced and does not arrive ends its connection by the minimum rate.
#[tokio::test]
async fn a_stalled_body_ends_its_connection() {
    let port = TestPort::start();
    let mut client = port.connect().await;
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: webhook\r\ncontent-length: 1000000\r\n\r\n{{");
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = client.read_to_end(&mut answer);
    let read = tokio::time::timeout(Duration::from_secs(30), read).await;
    assert!(read.is_ok(), "the connection stays");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    is_allowed(&port).await;
}
