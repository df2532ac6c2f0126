//! A runtime that gets its certificate from a controller; here, from a port of the test.

use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use rustls::{ServerConfig, ServerConnection};

use super::*;

/// Token of the pod.
const TOKEN: &str = "the-token-of-the-pod";

/// Validity of certificates in seconds: one that a test sees end, and one that no test does.
const SHORT: u64 = 15;
const LONG: u64 = 3600;

/// A controller that signs for the right token while `valid_seconds` is not 0.
struct Controller {
    address: SocketAddr,
    valid_seconds: Arc<AtomicU64>,
    /// Authorities that replicas have to trust; `None` as of a controller that names none.
    authorities: Arc<Mutex<Option<String>>>,
    answers: Arc<AtomicU64>,
}

impl Controller {
    fn start(own: &Authority, signing: Arc<Authority>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pair = own.server();
        let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = Arc::new(config.with_single_cert(chain, key).unwrap());
        let (valid_seconds, answers) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (valid, count) = (Arc::clone(&valid_seconds), Arc::clone(&answers));
        let authorities = Arc::<Mutex<Option<String>>>::default();
        let named = Arc::clone(&authorities);
        // The thread ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let trusted = named.lock().unwrap().clone();
                let _ = answer(StreamOwned::new(connection, stream), &signing, valid.load(Ordering::SeqCst), trusted);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, valid_seconds, authorities, answers }
    }
}

fn answer(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    signing: &Authority,
    valid: u64,
    authorities: Option<String>,
) -> std::io::Result<()> {
    let mut head = String::new();
    let mut reader = BufReader::new(&mut stream);
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let is_right = head.starts_with("POST /v1/certificate ") && head.contains(&format!("Bearer {TOKEN}\r\n"));
    let (status, body) = match (is_right, valid) {
        (false, _) => ("401 Unauthorized", "a token is needed".to_owned()),
        (true, 0) => ("503 Service Unavailable", "ask again".to_owned()),
        (true, valid) => {
            let pair = signing.server();
            let issued = serde_json::json!({
                "certificate": pair.certificate, "key": pair.key, "validSeconds": valid, "renewSeconds": valid,
                "authorities": authorities,
            });
            ("200 OK", issued.to_string())
        }
    };
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn start(folder: &Path, controller: &Controller, trusted: &Authority, token: &str) -> Running {
    let file = folder.join("token");
    fs::write(&file, format!("{token}\n")).unwrap();
    let url = format!("https://127.0.0.1:{}/v1/certificate", controller.address.port());
    let file = file.display().to_string();
    Running::start_with(
        folder,
        &["--certificate-token-file", &file],
        &[("WEIR_CERTIFICATE_URL", &url), ("WEIR_CERTIFICATE_CA", &trusted.pem)],
    )
}

fn is_ready(server: &Running) -> Option<()> {
    get(connect(server.metrics), "/ready").filter(|line| line == "HTTP/1.1 200 OK").map(drop)
}

#[test]
fn a_replica_is_ready_exactly_while_it_has_a_valid_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Arc::new(Authority::new("ours"));
    let controller = Controller::start(&ours, Arc::clone(&ours));
    let server = start(folder.path(), &controller, &ours, TOKEN);
    let gateway = client(&[&ours], Some(&ours.client(GATEWAY)));
    until(|| (controller.answers.load(Ordering::SeqCst) > 1).then_some(()));
    assert_eq!((is_ready(&server), status(server.http, &gateway)), (None, None));
    controller.valid_seconds.store(SHORT, Ordering::SeqCst);
    until(|| is_ready(&server));
    assert_eq!(status(server.http, &gateway).as_deref(), Some("HTTP/1.1 200 OK"));
    assert_eq!(status(server.http, &client(&[&ours], None)), None);
    // Renewals fail, and the certificate expires.
    controller.valid_seconds.store(0, Ordering::SeqCst);
    until(|| is_ready(&server).is_none().then_some(()));
    assert_eq!(status(server.http, &gateway), None);
    controller.valid_seconds.store(LONG, Ordering::SeqCst);
    until(|| is_ready(&server));
    assert_eq!(status(server.grpc, &gateway).as_deref(), Some("HTTP/1.1 415 Unsupported Media Type"));
}

#[test]
fn a_replica_learns_with_a_renewal_that_another_authority_replaces_the_one_of_its_pod() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Arc::new(Authority::new("old")), Authority::new("new"));
    let controller = Controller::start(&old, Arc::clone(&old));
    controller.valid_seconds.store(SHORT, Ordering::SeqCst);
    let server = start(folder.path(), &controller, &old, TOKEN);
    until(|| is_ready(&server));
    let [of_old, of_new] = [&old, &new].map(|authority| client(&[&old], Some(&authority.client(GATEWAY))));
    let accepts = |client: &Arc<ClientConfig>| status(server.http, client).is_some_and(|line| line.ends_with("200 OK"));
    assert!(accepts(&of_old) && !accepts(&of_new));
    *controller.authorities.lock().unwrap() = Some(format!("{}{}", old.pem, new.pem));
    until(|| accepts(&of_new).then_some(()));
    assert!(accepts(&of_old));
    *controller.authorities.lock().unwrap() = Some(new.pem);
    until(|| (!accepts(&of_old)).then_some(()));
    assert!(accepts(&of_new));
}

#[test]
fn only_a_controller_of_the_authority_gets_the_token_and_only_the_right_token_gets_a_certificate() {
    let (ours, others) = (Arc::new(Authority::new("ours")), Arc::new(Authority::new("others")));
    for (own, token) in [(&others, TOKEN), (&ours, "another-token-of-a-pod")] {
        let folder = tempfile::tempdir().unwrap();
        let controller = Controller::start(own, Arc::clone(&ours));
        controller.valid_seconds.store(LONG, Ordering::SeqCst);
        let server = start(folder.path(), &controller, &ours, token);
        until(|| (controller.answers.load(Ordering::SeqCst) > 2).then_some(()));
        assert_eq!(is_ready(&server), None);
    }
}
