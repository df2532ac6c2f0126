//! Downloads from a real server that misbehaves.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_fetch::{Attempt, FetchError, Limits};

/// A fault of the server in one request; requests without a fault are served correctly.
#[derive(Clone, Copy)]
enum Fault {
    /// Sends this many of the remaining bytes, and closes the connection.
    Cut(usize),
    /// Responds with this status.
    Status(u16),
    /// Redirects to this host, on the server's own port.
    Redirect(&'static str),
    /// Sends the response head and nothing more.
    Stall,
    /// Serves different content from now on.
    Change,
}

struct Server {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(content: Vec<u8>, faults: &[Fault]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (seen, mut faults) = (heads.clone(), VecDeque::from(faults.to_vec()));
        std::thread::spawn(move || {
            let (mut content, mut tag, mut held) = (content, 1, Vec::new());
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let head = read_head(&stream);
                let start = range(&head, tag);
                seen.lock().unwrap().push(head);
                let mut cut = usize::MAX;
                match faults.pop_front() {
                    Some(Fault::Cut(bytes)) => cut = bytes,
                    Some(Fault::Status(status)) => {
                        answer_empty(&mut stream, &format!("{status} X"));
                        continue;
                    }
                    Some(Fault::Redirect(to)) => {
                        let to = to.replace("PORT", &port.to_string());
                        answer_empty(&mut stream, &format!("302 X\r\nlocation: {to}"));
                        continue;
                    }
                    Some(Fault::Stall) => cut = 0,
                    Some(Fault::Change) => {
                        content.reverse();
                        tag += 1;
                        send(&mut stream, &content, tag, 0, usize::MAX);
                        continue;
                    }
                    None => {}
                }
                send(&mut stream, &content, tag, start, cut);
                if cut == 0 {
                    held.push(stream);
                }
            }
        });
        Self { url, heads }
    }

    fn uri(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    fn requests(&self) -> usize {
        self.heads.lock().unwrap().len()
    }
}

fn read_head(stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    lines.join("\n").to_lowercase()
}

fn range(head: &str, tag: u32) -> usize {
    let fits = head.contains(&format!("if-range: \"{tag}\""));
    let range = head.split("range: bytes=").nth(1).filter(|_| fits);
    let start = range.and_then(|range| range.split('-').next());
    start.map_or(0, |start| start.parse().unwrap())
}

/// Sends an empty response with `connection: close`, because the server closes the connection. A client that reused the
/// connection for its next request would lose that request and start the whole download again.
fn answer_empty(stream: &mut TcpStream, head: &str) {
    let end = "content-length: 0\r\nconnection: close";
    let _ = write!(stream, "HTTP/1.1 {head}\r\n{end}\r\n\r\n");
}

fn send(stream: &mut TcpStream, content: &[u8], tag: u32, start: usize, cut: usize) {
    let rest = &content[start..];
    let status = if start > 0 { "206 Partial Content" } else { "200 OK" };
    let mut head = format!("HTTP/1.1 {status}\r\netag: \"{tag}\"\r\nconnection: close\r\n");
    if start > 0 {
        let (last, total) = (content.len() - 1, content.len());
        head += &format!("content-range: bytes {start}-{last}/{total}\r\n");
    }
    let _ = write!(stream, "{head}content-length: {}\r\n\r\n", rest.len());
    let _ = stream.write_all(&rest[..rest.len().min(cut)]);
}

fn content() -> Vec<u8> {
    (0..300_000u32).map(|i| (i % 251) as u8).collect()
}

async fn fetch(uri: &str, target: &Path, limits: &Limits) -> Result<(), FetchError> {
    weir_fetch::fetch(uri, target, limits, &mut |_| ()).await
}

async fn get(server: &Server, limits: &Limits) -> (tempfile::TempDir, Result<Vec<u8>, FetchError>) {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model");
    let fetched = fetch(&server.uri("model.pt"), &target, limits).await;
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    if fetched.is_ok() {
        assert_eq!(names, 3, "the model, a lock, and the mark of a model that may not be on disk yet");
    }
    let bytes = fetched.map(|()| std::fs::read(target.join("model.pt")).unwrap());
    (folder, bytes)
}

#[tokio::test]
async fn an_interrupted_download_resumes() {
    let server = Server::start(content(), &[Fault::Cut(100_000), Fault::Status(503), Fault::Cut(50_000)]);
    let (_folder, bytes) = get(&server, &Limits::default()).await;
    assert_eq!(bytes.unwrap(), content());
    let heads = server.heads.lock().unwrap();
    assert_eq!(heads.len(), 4);
    assert!(heads[3].contains("range: bytes="), "{}", heads[3]);
}

#[tokio::test]
async fn a_stalled_download_resumes() {
    let server = Server::start(content(), &[Fault::Stall]);
    let limits = Limits { stall: Duration::from_millis(300), ..Limits::default() };
    let (_folder, bytes) = get(&server, &limits).await;
    assert_eq!(bytes.unwrap(), content());
}

#[tokio::test]
async fn changed_content_is_downloaded_again() {
    let server = Server::start(content(), &[Fault::Cut(100_000), Fault::Change]);
    let (_folder, bytes) = get(&server, &Limits::default()).await;
    let mut changed = content();
    changed.reverse();
    assert_eq!(bytes.unwrap(), changed);
}

#[tokio::test]
async fn redirects_to_this_machine_are_followed_only_on_the_same_host() {
    let same = [Fault::Redirect("/other.pt"), Fault::Redirect("http://127.0.0.1:PORT/x.pt")];
    let server = Server::start(content(), &same);
    let (_folder, bytes) = get(&server, &Limits::default()).await;
    assert_eq!(bytes.unwrap(), content());
    for to in [
        "http://localhost:PORT/x.pt",
        "http://127.0.0.2:PORT/x.pt",
        "http://[::1]:PORT/x.pt",
        "http://169.254.169.254/latest/meta-data",
    ] {
        let server = Server::start(content(), &[Fault::Redirect(to)]);
        let (_folder, bytes) = get(&server, &Limits::default()).await;
        let error = bytes.unwrap_err().to_string();
        assert!(error.contains(" redirects to http://"), "{to}: {error}");
        assert_eq!(server.requests(), 1, "{to}");
    }
}

#[tokio::test]
async fn endless_redirects_are_refused() {
    let server = Server::start(content(), &[Fault::Redirect("/x.pt"); 100]);
    let (_folder, bytes) = get(&server, &Limits::default()).await;
    assert!(bytes.unwrap_err().to_string().contains("which exceeds the limit of 10 redirects"));
    assert_eq!(server.requests(), 11);
}

/// SHA-256 digest of an empty file.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[tokio::test]
async fn a_file_must_match_its_digest() {
    let server = Server::start(Vec::new(), &[]);
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (folder.path().join("right"), folder.path().join("wrong"));
    let uri = server.uri(&format!("model.pt#sha256:{}", EMPTY.to_uppercase()));
    fetch(&uri, &right, &Limits::default()).await.unwrap();
    assert!(right.join("model.pt").exists());
    // Nothing of the archive is unpacked.
    let other = EMPTY.replace('e', "f");
    let uri = server.uri(&format!("model.tar#sha256:{other}"));
    let error = fetch(&uri, &wrong, &Limits::default()).await.unwrap_err();
    let expected = format!("has the digest sha256:{EMPTY}, not sha256:{other}");
    assert!(error.to_string().contains(&expected), "{error}");
    assert!(!wrong.exists());
    let uri = server.uri("model.pt#sha256:abc");
    let error = fetch(&uri, &wrong, &Limits::default()).await.unwrap_err();
    assert!(error.to_string().contains("64 hexadecimal digits"), "{error}");
}

#[tokio::test]
async fn a_refusal_is_not_retried() {
    let server = Server::start(content(), &[Fault::Status(404)]);
    let (_folder, bytes) = get(&server, &Limits::default()).await;
    let error = bytes.unwrap_err().to_string();
    assert_eq!(error, format!("{} answered 404: there is no such file; check the address", server.uri("model.pt")));
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn too_large_a_file_is_not_downloaded() {
    let server = Server::start(content(), &[]);
    let limits = Limits { download: 1000, ..Limits::default() };
    let (folder, bytes) = get(&server, &limits).await;
    assert!(bytes.unwrap_err().to_string().ends_with("exceeds 1000"));
    assert!(!folder.path().join("model").exists());
}

#[tokio::test]
async fn a_server_that_never_delivers_ends_the_fetch() {
    let server = Server::start(content(), &[Fault::Status(500); 2]);
    let limits = Limits { attempts: 2, ..Limits::default() };
    let (_folder, bytes) = get(&server, &limits).await;
    assert!(bytes.unwrap_err().to_string().ends_with("could not be downloaded: status 500"));
}

#[tokio::test]
async fn a_host_that_cannot_be_reached_is_named_at_the_first_attempt() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (uri, limits) = (format!("http://{free}/model.pt"), Limits { attempts: 2, ..Limits::default() });
    let mut attempts = Vec::new();
    let mut observe = |attempt| attempts.push(attempt);
    let target = folder.path().join("model");
    let fetched = weir_fetch::fetch(&uri, &target, &limits, &mut observe).await;
    let expected = format!(
        "{uri} could not be downloaded: the host 127.0.0.1 cannot be reached (Connection refused (os error 111))"
    );
    assert_eq!(fetched.unwrap_err().to_string(), expected);
    assert_eq!(attempts, [Attempt::Failed(expected)]);
}

#[tokio::test]
async fn concurrent_fetches_download_once() {
    let server = Server::start(content(), &[]);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model");
    let (uri, limits) = (server.uri("model.pt"), Limits::default());
    let (first, second) = tokio::join!(fetch(&uri, &target, &limits), fetch(&uri, &target, &limits));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert_eq!(server.requests(), 1);
    fetch(&uri, &target, &limits).await.unwrap();
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn an_archive_is_unpacked() {
    let mut header = tar::Header::new_gnu();
    header.set_size(5);
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_data(&mut header, "digits/model.pt", &b"model"[..]).unwrap();
    let server = Server::start(builder.into_inner().unwrap(), &[]);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model");
    fetch(&server.uri("digits.tar?signature=x"), &target, &Limits::default()).await.unwrap();
    assert_eq!(std::fs::read(target.join("digits/model.pt")).unwrap(), b"model");
}
