//! Certificates of clients in place of keys, on a port with TLS.

use std::path::PathBuf;

use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use weir_access::{CertificateName, ClientCertificates};
use weir_gateway::ClientAuthority;

use super::*;
use crate::tls;

/// An authority of clients.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        (certificate, PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn entry(&self) -> ClientAuthority {
        let settings = ClientCertificates {
            ca_file: PathBuf::new(),
            client_from: CertificateName::CommonName,
            client_prefix: "ca:".to_owned(),
        };
        ClientAuthority::new(&settings, self.pem.as_bytes()).unwrap()
    }
}

/// A gateway that accepts the keys of `team-a` and the certificates of one authority.
struct Port {
    guarded: Guarded,
    server: CertificateDer<'static>,
}

impl Port {
    async fn new(authority: &Authority) -> Self {
        let rules = vec![rule("team-a", &["*"], &[]), rule("ca:ada", &["*"], &[])];
        let (server, tls) = tls::certificate();
        let guarded = Guarded::with_tls(policy(vec![written(1, "team-a")], rules), tls).await;
        guarded.access.accept_certificates(vec![authority.entry()]).unwrap();
        Self { guarded, server }
    }

    /// Connects with a certificate. TLS 1.3 reports the refusal of a certificate only when the client reads.
    async fn connect(&self, protocol: &str, pair: Option<&Pair>) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.server.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match pair {
            Some((certificate, key)) => {
                config.with_client_auth_cert(vec![certificate.clone()], key.clone_key()).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.guarded.world.gateways[0].encrypted.unwrap()).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), stream).await.unwrap()
    }

    async fn open(&self, pair: Option<&Pair>) -> http1::SendRequest<Full<Bytes>> {
        let io = TokioIo::new(self.connect("http/1.1", pair).await);
        let (sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

fn infer() -> Request<Full<Bytes>> {
    post(HOST, "/v2/models/digits/infer", "x")
}

async fn status(sender: &mut http1::SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> StatusCode {
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status();
    answer.into_body().collect().await.unwrap();
    status
}

#[tokio::test]
async fn a_certificate_names_the_client_and_is_optional() {
    let authority = Authority::new();
    let port = Port::new(&authority).await;
    let (ada, bob) = (authority.sign("ada"), authority.sign("bob"));
    let (key, wrong) = (key(1).text, "weir_x");
    let cases = [
        (Some(&ada), None, StatusCode::OK),
        (Some(&bob), None, StatusCode::FORBIDDEN),
        (None, None, StatusCode::UNAUTHORIZED),
        (None, Some(&*key), StatusCode::OK),
        (Some(&bob), Some(&*key), StatusCode::OK),
        (Some(&ada), Some(wrong), StatusCode::UNAUTHORIZED),
    ];
    for (number, (pair, key, expected)) in cases.into_iter().enumerate() {
        let request = match key {
            Some(key) => with(infer(), "x-api-key", key),
            None => infer(),
        };
        let request = with(request, "weir-client", "root");
        assert_eq!(status(&mut port.open(pair).await, request).await, expected, "case {number}");
    }
    let heads = port.guarded.replica.seen.heads.lock();
    let clients: Vec<&str> = heads.iter().map(|head| head.headers["weir-client"].to_str().unwrap()).collect();
    assert_eq!(clients, ["ca:ada", "team-a", "team-a"]);
}

#[tokio::test]
async fn a_certificate_names_the_client_over_http2() {
    let authority = Authority::new();
    let port = Port::new(&authority).await;
    let io = TokioIo::new(port.connect("h2", Some(&authority.sign("ada"))).await);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..2 {
        let request = Request::post(format!("https://{HOST}/v2/models/digits/infer"));
        let request = request.body(Full::new(Bytes::from_static(b"x"))).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_stranger_with_a_certificate_gets_no_connection() {
    let authority = Authority::new();
    let port = Port::new(&authority).await;
    let mut sender = port.open(Some(&Authority::new().sign("ada"))).await;
    let answer = sender.send_request(with(infer(), "x-api-key", &key(1).text)).await;
    assert!(answer.is_err(), "{answer:?}");
}

#[tokio::test]
async fn authorities_are_replaced_for_open_and_for_new_connections() {
    let (first, second) = (Authority::new(), Authority::new());
    let port = Port::new(&first).await;
    let mut open = port.open(Some(&first.sign("ada"))).await;
    assert_eq!(status(&mut open, infer()).await, StatusCode::OK);
    port.guarded.access.accept_certificates(vec![second.entry()]).unwrap();
    assert_eq!(status(&mut open, infer()).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&mut open, with(infer(), "x-api-key", &key(1).text)).await, StatusCode::OK);
    let mut new = port.open(Some(&second.sign("ada"))).await;
    assert_eq!(status(&mut new, infer()).await, StatusCode::OK);
    port.guarded.access.accept_certificates(Vec::new()).unwrap();
    assert_eq!(status(&mut new, infer()).await, StatusCode::UNAUTHORIZED);
}
