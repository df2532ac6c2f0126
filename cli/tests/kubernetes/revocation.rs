//! Three gateways with the keys of one Secret, which they watch with the rights of the chart.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{kubeconfig, wait_until};
use crate::process::{Process, Start};

/// Settings of the chart with which every client may use every service.
pub(crate) const SETTINGS: [&str; 4] =
    ["access.enabled=true", "access.issuers=null", "access.rules[0].clients={*}", "access.rules[0].services={*}"];

/// Flags with which the chart runs gateways then.
pub(crate) const FLAGS: [&str; 2] = ["--access-secret=weir-access", "--access-config-map=weir-access-rules"];

/// Time within which each gateway refuses a key that was revoked.
const PROMPT: Duration = Duration::from_secs(1);

struct Running {
    process: Process,
    port: u16,
}

impl Running {
    fn start(number: usize, namespaces: (&str, &str), folder: &Path) -> Self {
        let port = free_port();
        let (port_flag, name) = (format!("--port={port}"), format!("guarded-{number}"));
        let more: Vec<&str> = FLAGS.into_iter().chain([&*port_flag]).collect();
        let start = Start { component: "gateway", name: &name, namespaces, folder };
        Self { process: start.process(&more), port }
    }

    /// Returns the status of a request to a service that does not exist; 0 if there is no answer.
    fn status(&self, key: &str) -> u16 {
        let head = format!(
            "GET /v2 HTTP/1.1\r\nhost: absent.none\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\r\n"
        );
        let mut answer = String::new();
        let sent = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            stream.write_all(head.as_bytes())?;
            stream.read_to_string(&mut answer)
        });
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        sent.ok().and(status).unwrap_or(0)
    }

    /// Sends requests until the key is refused, and returns the time when that was.
    fn refusal(&self, key: &str) -> Instant {
        let end = Instant::now() + Duration::from_secs(60);
        while self.status(key) != 401 {
            assert!(Instant::now() < end, "the key is not refused: {}", self.process.output());
            thread::sleep(Duration::from_millis(5));
        }
        Instant::now()
    }
}

/// Returns a port that the system has just chosen.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs `weir key` for the Secret of the gateways, and returns what it prints.
fn key(system: &str, words: &[&str]) -> String {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.arg("key").args(words).args(["--secret", &format!("{system}/weir-access")]).env("KUBECONFIG", kubeconfig());
    let output = weir.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Makes keys and revokes them, and returns what the gateways printed.
pub(crate) fn keys_are_revoked_promptly(namespaces: (&str, &str), folder: &Path) -> String {
    let gateways: Vec<Running> = (0..3).map(|number| Running::start(number, namespaces, folder)).collect();
    let printed = || gateways.iter().map(|running| running.process.output()).collect::<String>();
    // The first key makes the Secret.
    for _ in 0..5 {
        let text = key(namespaces.0, &["create", "--client", "team"]);
        // A client that may use all services learns that one does not exist.
        wait_until("the key is accepted", printed, || gateways.iter().all(|running| running.status(&text) == 404));
        let late = thread::scope(|scope| {
            let refused = gateways.iter().map(|running| scope.spawn(|| running.refusal(&text)));
            let refused: Vec<_> = refused.collect();
            key(namespaces.0, &["revoke", &text]);
            let revoked = Instant::now();
            let late = refused.into_iter().map(|refused| refused.join().unwrap().saturating_duration_since(revoked));
            late.max().unwrap()
        });
        assert!(late < PROMPT, "a gateway accepted the key for {late:?} after it was revoked");
    }
    gateways.into_iter().map(|running| running.process.end()).collect()
}
