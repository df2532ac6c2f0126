//! `weir fetch`, the real program, against a local HTTP server.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::weir::PROGRAM;

/// Starts a server that returns this body for every path except `/missing.zip`, until the process ends.
pub(crate) fn server(body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap();
            let is_missing = head[..read].starts_with(b"GET /missing.zip ");
            let (status, body) = if is_missing { ("404 Not Found", &[][..]) } else { ("200 OK", &*body) };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(body);
        }
    });
    url
}

/// Runs `weir fetch`; returns the exit code and standard error.
fn fetch(uri: &str, directory: &Path) -> (Option<i32>, String) {
    let output = Command::new(PROGRAM)
        .args(["fetch", uri])
        .arg(directory)
        // In an image with a read-only root, there is no temporary directory.
        .env("TMPDIR", "/nonexistent")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}

/// Returns a tar archive with one file in a directory.
fn archive() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("digits/1")).unwrap();
    fs::write(folder.path().join("digits/1/model.pt"), b"weights").unwrap();
    let made = Command::new("tar").arg("-C").arg(folder.path()).args(["-c", "digits"]).output();
    made.unwrap().stdout
}

#[test]
fn only_the_file_is_in_the_directory() {
    let url = server(b"weights".to_vec());
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("models");
    for _again in 0..2 {
        let done = fetch(&format!("{url}/model.pt?signature=1"), &directory);
        assert_eq!(done, (Some(0), String::new()));
        assert_eq!(names(&directory), ["model.pt"]);
        assert_eq!(fs::read(directory.join("model.pt")).unwrap(), b"weights");
    }
    assert_eq!(names(folder.path()), ["models"]);
}

#[test]
fn an_archive_replaces_the_rest_of_an_interrupted_run() {
    let url = server(archive());
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("digits/0")).unwrap();
    let done = fetch(&format!("{url}/models.tar"), directory.path());
    assert_eq!(done, (Some(0), String::new()));
    assert_eq!(names(directory.path()), ["digits"]);
    assert_eq!(names(&directory.path().join("digits")), ["1"]);
}

#[test]
fn a_failed_download_is_reported_in_one_sentence() {
    let url = server(Vec::new());
    let directory = tempfile::tempdir().unwrap();
    let (code, message) = fetch(&format!("{url}/missing.zip"), directory.path());
    assert_eq!(code, Some(1));
    assert_eq!(message, format!("error: {url}/missing.zip answered 404: there is no such file; check the address\n"));
    let (code, message) = fetch(&format!("{url}/broken.zip"), directory.path());
    assert_eq!((code, message.lines().count()), (Some(1), 1), "{message}");
    let (code, message) = fetch("hdfs://models/digits", directory.path());
    assert_eq!(code, Some(2));
    assert!(message.contains("hdfs:// is not supported; copy the files to a bucket or a volume"), "{message}");
    let file = directory.path().join("file");
    fs::write(&file, b"").unwrap();
    let (code, message) = fetch(&format!("{url}/model.pt"), &file);
    assert_eq!(code, Some(1));
    assert!(message.contains("cannot write"), "{message}");
}

#[test]
fn the_error_of_a_failed_download_is_left_for_the_kubelet() {
    let url = server(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("termination-log");
    fs::write(&log, "").unwrap();
    let failed = Command::new(PROGRAM)
        .args(["fetch", &format!("{url}/missing.zip")])
        .arg(folder.path().join("models"))
        .arg("--termination-log")
        .arg(&log)
        .output()
        .unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let error = fs::read_to_string(&log).unwrap();
    assert!(error.starts_with(&format!("error: {url}/missing.zip answered 404: ")), "{error}");
}

/// Serves the first half of a megabyte, and never the rest.
fn half_of_a_megabyte() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
            let _ = stream.write_all(&[7; 500_000]);
            open.push(stream);
        }
    });
    url
}

/// Returns the response of the port to a request for the progress; empty if the port is closed.
fn progress(port: u16) -> String {
    let mut response = String::new();
    if let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) {
        let _ = stream.write_all(b"GET /progress HTTP/1.1\r\nHost: pod\r\n\r\n");
        let _ = stream.read_to_string(&mut response);
    }
    response
}

#[test]
fn a_running_download_reports_its_progress_on_a_port() {
    let url = half_of_a_megabyte();
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut fetching = Command::new(PROGRAM)
        .args(["fetch", &format!("{url}/model.pt")])
        .arg(folder.path())
        // Pods give the port as a variable, which older versions ignore.
        .env("WEIR_PROGRESS_PORT", port.to_string())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut response = String::new();
    while !response.contains(r#""progress":{"done":500000,"total":1000000,"#) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        response = progress(port);
    }
    fetching.kill().unwrap();
    fetching.wait().unwrap();
    assert!(response.contains(r#""progress":{"done":500000,"total":1000000,"rate":"#), "{response}");
    assert!(response.ends_with(r#","retrying":null}"#), "{response}");
}
