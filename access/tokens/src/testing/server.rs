//! An issuer's server over HTTPS on this machine.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::CertifiedKey;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::{Signer, jwks};

/// A server of an OpenID configuration and a key set, which end with the value.
pub(crate) struct IssuerServer {
    state: Arc<Mutex<State>>,
    gate: Arc<RwLock<()>>,
    pub(crate) url: String,
    directory: tempfile::TempDir,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct State {
    url: String,
    /// Status and body of the key set.
    key_set: (u16, Vec<u8>),
    /// URL of the key set in the configuration, and the issuer in it.
    named: (String, String),
    fetches: usize,
    authorization: Option<String>,
}

impl IssuerServer {
    pub(crate) async fn start(signers: &[&Signer]) -> Self {
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let tls =
            ServerConfig::builder().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), cert.pem()).unwrap();
        let named = (format!("{url}/keys"), url.clone());
        let state = Arc::new(Mutex::new(State { url: url.clone(), named, ..State::default() }));
        let (tls, gate) = (TlsAcceptor::from(Arc::new(tls)), Arc::<RwLock<()>>::default());
        let task = tokio::spawn(serve(listener, tls, Arc::clone(&state), Arc::clone(&gate)));
        let server = Self { state, gate, url, directory, task };
        server.set_keys(signers);
        server
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Writes a file beside the certificate, and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn set_keys(&self, signers: &[&Signer]) {
        self.set_response(200, jwks(signers).to_string().into_bytes());
    }

    /// Sets the response to requests for the key set.
    pub(crate) fn set_response(&self, status: u16, body: Vec<u8>) {
        self.state.lock().key_set = (status, body);
    }

    /// Sets the URL of the key set and the issuer that the OpenID configuration names.
    pub(crate) fn set_named(&self, key_set: &str, issuer: &str) {
        self.state.lock().named = (key_set.to_owned(), issuer.to_owned());
    }

    /// Holds all responses back until the value is dropped.
    pub(crate) async fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.gate).write_owned().await
    }

    /// Returns the number of requests for the key set.
    pub(crate) fn fetches(&self) -> usize {
        self.state.lock().fetches
    }

    /// Returns the header `Authorization` of the last request.
    pub(crate) fn authorization(&self) -> Option<String> {
        self.state.lock().authorization.clone()
    }
}

impl Drop for IssuerServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, state: Arc<Mutex<State>>, gate: Arc<RwLock<()>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, tls.clone(), Arc::clone(&state), Arc::clone(&gate)));
    }
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, state: Arc<Mutex<State>>, gate: Arc<RwLock<()>>) {
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = hyper::service::service_fn(move |request| {
        let (response, gate) = (respond(&request, &mut state.lock()), Arc::clone(&gate));
        async move {
            drop(gate.read().await);
            Ok::<_, Infallible>(response)
        }
    });
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

fn respond(request: &Request<Incoming>, state: &mut State) -> Response<Full<Bytes>> {
    let value = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    state.authorization = value.map(str::to_owned);
    let accepted = request.headers().get("accept").and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    let accepts = |media_type| accepted == "*/*" || accepted.split(", ").any(|one| one == media_type);
    let (status, body) = match request.uri().path() {
        "/.well-known/openid-configuration" if accepts("application/json") => {
            (200, json!({ "issuer": state.named.1, "jwks_uri": state.named.0 }).to_string().into_bytes())
        }
        "/keys" | "/openid/v1/jwks" if accepts("application/jwk-set+json") => {
            state.fetches += 1;
            state.key_set.clone()
        }
        // An API server offers one media type for each path, and answers 406 to clients that accept only others.
        "/.well-known/openid-configuration" | "/keys" | "/openid/v1/jwks" => (406, Vec::new()),
        _ => (404, Vec::new()),
    };
    let response = Response::builder().status(status).header("location", format!("{}/elsewhere", state.url));
    response.body(Full::new(body.into())).unwrap()
}
