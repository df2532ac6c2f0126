//! A platform that serves over TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::manifest::{NAME, Service};
use crate::weir::{PROGRAM, Weir, wait_until};

/// Writes a new self-signed certificate into this folder; returns the paths of the certificate and the key.
fn renew(folder: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&files.0, made.cert.pem()).unwrap();
    fs::write(&files.1, made.signing_key.serialize_pem()).unwrap();
    files
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn text_of(output: &Output) -> String {
    let Output { stdout, stderr, .. } = output;
    format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr))
}

struct Encrypted {
    weir: Weir,
    certificate: PathBuf,
    request: String,
}

impl Encrypted {
    fn up(folder: &Path) -> Self {
        let file = folder.join("echo.yaml");
        fs::write(&file, Service::new("one").yaml()).unwrap();
        let request = folder.join("request.json");
        fs::write(&request, r#"{"inputs": []}"#).unwrap();
        let (certificate, key) = renew(folder);
        let flags = ["--tls-cert", &text(&certificate), "--tls-key", &text(&key)];
        let weir = Weir::up(&file, folder, &flags);
        weir.wait_for("ready", |service| service["ready"] == "True");
        Self { weir, certificate, request: text(&request) }
    }

    fn infer(&self, more: &[&str]) -> Output {
        let words = ["infer", NAME, "--json", &self.request];
        self.weir.run(&[&words, more].concat())
    }
}

#[test]
fn clients_on_this_machine_trust_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let mut platform = Encrypted::up(folder.path());
    let output = platform.weir.output();
    assert!(output.contains(" on https://127.0.0.1:"), "{output}");
    let status = text_of(&platform.weir.run(&["status"]));
    assert!(status.contains("https://localhost:"), "{status}");
    let answer = text_of(&platform.infer(&[]));
    assert!(answer.contains("one"), "{answer}");
    let url = format!("https://localhost:{}", platform.weir.serving.port());
    let certificate = text(&platform.certificate);
    let answer = text_of(&platform.infer(&["--url", &url, "--cacert", &certificate]));
    assert!(answer.contains("one"), "{answer}");
    let refused = platform.infer(&["--url", &url]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text_of(&refused);
    assert!(message.ends_with("needs --cacert FILE\n"), "{message}");
    let plain = platform.infer(&["--url", &url.replace("https", "http")]);
    assert_eq!(plain.status.code(), Some(1), "{}", text_of(&plain));
    assert_eq!(platform.weir.stop().code(), Some(0));
}

#[test]
fn a_new_certificate_is_used_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut platform = Encrypted::up(folder.path());
    let url = format!("https://localhost:{}", platform.weir.serving.port());
    fs::write(folder.path().join("key.pem"), "broken").unwrap();
    let warned = || platform.weir.output().contains("stays in use");
    wait_until("the warning", warned, || platform.weir.output());
    let answer = text_of(&platform.infer(&[]));
    assert!(answer.contains("one"), "{answer}");
    renew(folder.path());
    let certificate = text(&platform.certificate);
    let flags = ["--url", &url, "--cacert", &certificate];
    let answered = || platform.infer(&flags).status.success();
    wait_until("the new certificate", answered, || platform.weir.output());
    assert_eq!(platform.weir.stop().code(), Some(0));
}

#[test]
fn invalid_certificates_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").yaml()).unwrap();
    let (certificate, key) = renew(folder.path());
    let (_, others_key) = renew(other.path());
    let up = |flags: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["up", "--port", "0", "--admin-port", "0", "-f"]);
        let output = command.arg(&file).args(flags).output().unwrap();
        (output.status.code(), text_of(&output))
    };
    let (certificate, key) = (text(&certificate), text(&key));
    let (code, message) = up(&["--tls-cert", &certificate]);
    assert!(code == Some(2) && message.contains("--tls-key"), "{message}");
    let (code, message) = up(&["--tls-key", &key, "--tls-cert", "/none.pem"]);
    let expected = "error: /none.pem (--tls-cert): No such file";
    assert!(code == Some(2) && message.starts_with(expected), "{message}");
    let mixed = ["--tls-cert", &certificate, "--tls-key", &text(&others_key)];
    let (code, message) = up(&mixed);
    assert!(code == Some(2) && message.contains("does not match the certificate"), "{message}");
}
