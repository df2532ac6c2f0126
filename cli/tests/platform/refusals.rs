//! What `weir up` refuses, with which sentence and exit code.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use crate::manifest::manifest;
use crate::weir::PROGRAM;

fn up(program: &Path, file: &Path, more: &[&str]) -> (Option<i32>, String) {
    let folder = file.parent().unwrap();
    let Output { status, stderr, .. } = Command::new(program)
        .args(["up", "--admin-port", "0", "-f"])
        .arg(file)
        .arg("--state-dir")
        .arg(folder.join("state"))
        .args(more)
        .env("PATH", "/bin")
        .output()
        .unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_mistake_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    let text = manifest("one", None).replace("minReplicas", "minReplica");
    fs::write(&file, text).unwrap();
    let (code, told) = up(Path::new(PROGRAM), &file, &["--port", "0"]);
    let expected = format!(
        "{}:9:5: spec.predictor.minReplica: unknown field; did you mean `minReplicas`?\n",
        file.display()
    );
    assert_eq!((code, told), (Some(2), expected));
}

#[test]
fn what_cannot_be_served_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    let text = manifest("one", None).replace("minReplicas: 0", "minReplicas: -1");
    fs::write(&file, text).unwrap();
    let (code, told) = up(Path::new(PROGRAM), &file, &["--port", "0"]);
    let place = format!("{}:9:5: spec.predictor.minReplicas: ", file.display());
    assert!(code == Some(2) && told.starts_with(&place), "{told}");
}

#[test]
fn a_path_that_is_not_there_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.yaml");
    let (code, told) = up(Path::new(PROGRAM), &file, &["--port", "0"]);
    assert!(code == Some(2) && told.contains("none.yaml"), "{told}");
}

#[test]
fn a_taken_port_is_told_with_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, manifest("one", None)).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, told) = up(Path::new(PROGRAM), &file, &["--port", &port]);
    let begin = format!("error: port {port} is taken (--port): another process listens on it.");
    assert!(code == Some(3) && told.starts_with(&begin), "{told}");
}

#[test]
fn a_missing_runtime_is_told_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    // Beside itself is where it looks first.
    let weir = folder.path().join("weir");
    if fs::hard_link(PROGRAM, &weir).is_err() {
        fs::copy(PROGRAM, &weir).unwrap();
    }
    let file = folder.path().join("digits.yaml");
    let text = "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: digits}
spec: {predictor: {model: {modelFormat: {name: pytorch}, storageUri: 'pvc://models/digits'}}}
";
    fs::write(&file, text).unwrap();
    let (code, told) = up(&weir, &file, &["--port", "0"]);
    assert!(
        code == Some(1) && told.starts_with("error: weir-runtime is missing"),
        "{told}"
    );
    let (code, told) = up(&weir, &file, &["--port", "0", "--runtime", "/no/such"]);
    let expected = "error: --runtime /no/such: there is no such program\n";
    assert_eq!((code, told.as_str()), (Some(2), expected));
}
