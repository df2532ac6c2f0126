//! The ports for requests of a real process serve clients with the right certificate alone.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod authority;
mod issuer;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rcgen::{ExtendedKeyUsagePurpose, SanType};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use authority::{Authority, Pair};

/// Longest wait of a client for its peer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The DNS name of clients that may connect, by default.
const GATEWAY: &str = "weir-gateway";

/// Number of polls at intervals of 10 ms.
const LOOKS: usize = 6000;

/// A running server without models, killed at the end of the test.
struct Running {
    child: Child,
    http: SocketAddr,
    grpc: SocketAddr,
    metrics: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a server with the files of [`write`].
    fn start(folder: &Path) -> Self {
        let path = |name: &str| folder.join(name).display().to_string();
        let (certificate, key, ca) = (path("tls.crt"), path("tls.key"), path("ca.crt"));
        Self::start_with(folder, &["--tls-cert", &certificate, "--tls-key", &key, "--client-ca", &ca], &[])
    }

    fn start_with(folder: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let models = folder.join("models");
        fs::create_dir_all(&models).unwrap();
        let log = folder.join("log");
        let child = Command::new(env!("CARGO_BIN_EXE_weir-runtime"))
            .arg("--model-repository")
            .arg(models)
            .args(["--http-address", "127.0.0.1", "--grpc-address", "127.0.0.1"])
            .args(["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"])
            .args(flags)
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let address = |flag: &str| until(|| bound(&fs::read_to_string(&log).unwrap(), flag));
        let (http, grpc, metrics) = (address("--http-port"), address("--grpc-port"), address("--metrics-port"));
        Self { child, http, grpc, metrics }
    }
}

/// Returns the address in the line of the log that names this flag.
fn bound(log: &str, flag: &str) -> Option<SocketAddr> {
    let line = log.lines().find(|line| line.contains(&format!("listening ({flag})")))?;
    let (_, address) = line.split_once("127.0.0.1:")?;
    let digits: String = address.chars().take_while(char::is_ascii_digit).collect();
    Some(([127, 0, 0, 1], digits.parse().ok()?).into())
}

fn until<T>(look: impl Fn() -> Option<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited too long");
}

/// Writes the files of the server, one after the other: in between they do not belong together.
fn write(folder: &Path, pair: &Pair, clients: &str) {
    fs::write(folder.join("tls.crt"), &pair.certificate).unwrap();
    fs::write(folder.join("tls.key"), &pair.key).unwrap();
    fs::write(folder.join("ca.crt"), clients).unwrap();
}

fn client(trusted: &[&Authority], pair: Option<&Pair>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for authority in trusted {
        roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    Arc::new(match pair {
        Some(pair) => {
            let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
        None => config.with_no_client_auth(),
    })
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Returns the first line of the response to a GET; `None` if there is none.
fn get(mut stream: impl Read + Write, path: &str) -> Option<String> {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok().filter(|read| *read > 0)?;
    Some(line.trim_end().to_owned())
}

/// Sends a request over a new TLS connection, and returns the first line of the response and the server's certificate.
fn get_by_tls(address: SocketAddr, config: &Arc<ClientConfig>) -> Option<(String, Vec<u8>)> {
    let name = address.ip().into();
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), connect(address));
    let line = get(&mut stream, "/v2/health/live")?;
    Some((line, stream.conn.peer_certificates()?[0].to_vec()))
}

fn status(address: SocketAddr, config: &Arc<ClientConfig>) -> Option<String> {
    get_by_tls(address, config).map(|(line, _)| line)
}

#[test]
fn only_clients_with_the_right_name_of_the_right_authority_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    write(folder.path(), &ours.server(), &ours.pem);
    let server = Running::start(folder.path());
    let right = client(&[&ours], Some(&ours.client(GATEWAY)));
    assert_eq!(status(server.http, &right).as_deref(), Some("HTTP/1.1 200 OK"));
    // The gRPC port answers HTTP/1.1 with a sentence, so it has accepted the connection.
    assert_eq!(status(server.grpc, &right).as_deref(), Some("HTTP/1.1 415 Unsupported Media Type"));
    let of_server = ours.sign(SanType::DnsName(GATEWAY.try_into().unwrap()), ExtendedKeyUsagePurpose::ServerAuth);
    let of_replica = ours.sign(
        SanType::URI("weir://default/digits-predictor-00001".try_into().unwrap()),
        ExtendedKeyUsagePurpose::ClientAuth,
    );
    for (case, wrong) in [
        ("none", None),
        ("another authority", Some(others.client(GATEWAY))),
        ("another name", Some(ours.client("weir-gateway.example.com"))),
        ("a URI", Some(of_replica)),
        ("a server", Some(of_server)),
    ] {
        for address in [server.http, server.grpc] {
            assert_eq!(status(address, &client(&[&ours], wrong.as_ref())), None, "{case} at {address}");
        }
    }
    for address in [server.http, server.grpc] {
        // The answer is an alert of TLS.
        let answer = get(connect(address), "/v2/health/live").unwrap_or_default();
        assert!(!answer.contains("HTTP"), "plain at {address}: {answer:?}");
    }
}

#[test]
fn the_metrics_port_stays_plain_and_answers_probes() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    write(folder.path(), &ours.server(), &ours.pem);
    let server = Running::start(folder.path());
    let is_ready = || get(connect(server.metrics), "/ready").filter(|line| line == "HTTP/1.1 200 OK");
    until(is_ready);
    assert_eq!(get(connect(server.metrics), "/metrics").as_deref(), Some("HTTP/1.1 200 OK"));
}

#[test]
fn files_are_replaced_under_load_without_a_failed_request() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let clients = format!("{}{}", first.pem, second.pem);
    write(folder.path(), &first.server(), &clients);
    let server = Running::start(folder.path());
    let both = [
        client(&[&first, &second], Some(&first.client(GATEWAY))),
        client(&[&first, &second], Some(&second.client(GATEWAY))),
    ];
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = both.each_ref().map(|config| {
            scope.spawn(|| {
                let mut answers = Vec::new();
                while !ended.load(Ordering::Relaxed) {
                    answers.push(status(server.http, config));
                }
                answers
            })
        });
        for authority in [&second, &first] {
            let before = get_by_tls(server.http, &both[0]).unwrap().1;
            write(folder.path(), &authority.server(), &clients);
            until(|| get_by_tls(server.http, &both[0]).filter(|(_, presented)| *presented != before));
        }
        ended.store(true, Ordering::Relaxed);
        for answers in load.map(|load| load.join().unwrap()) {
            assert!(answers.len() > 10, "{}", answers.len());
            assert!(answers.iter().all(|answer| answer.as_deref() == Some("HTTP/1.1 200 OK")), "{answers:?}");
        }
    });
}

#[test]
fn files_that_cannot_be_used_are_an_error_of_the_flags() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let mixed = Pair { key: ours.server().key, ..ours.server() };
    write(folder.path(), &mixed, &ours.pem);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let run = |key: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir-runtime"))
            .args(["--model-repository", &path("models")])
            .args(["--tls-cert", &path("tls.crt"), "--tls-key", &path(key), "--client-ca", &path("ca.crt")])
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let error = run("tls.key");
    assert!(
        error.contains("--tls-cert, --tls-key, --client-ca: the certificate and its key cannot be used"),
        "{error}"
    );
    let error = run("none.key");
    assert!(error.contains("none.key: No such file or directory"), "{error}");
}
