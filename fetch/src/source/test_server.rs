//! A web server for the tests of hubs and registries.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::access::settings::Fixed;
use crate::error::FetchError;
use crate::fetch::fetch_as;
use crate::limits::Limits;

/// A server on this machine.
pub(crate) struct TestServer {
    /// Host and port of the server.
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Path and query of the request.
    pub(crate) target: String,
    /// Names in lower case, and values.
    headers: Vec<(String, String)>,
    /// Body of a POST request.
    pub(crate) body: String,
}

/// A response of the server.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl TestServer {
    /// Starts a server that answers by a function.
    pub(crate) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (requests.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || {
                    let request = read(&stream);
                    log.lock().unwrap().push(request.clone());
                    send(stream, &answer(&request));
                });
            }
        });
        Self { address, requests }
    }

    /// Returns the requests whose target begins with `prefix`.
    pub(crate) fn requests(&self, prefix: &str) -> Vec<Request> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| request.target.starts_with(prefix)).cloned().collect()
    }
}

fn read(stream: &TcpStream) -> Request {
    let mut reader = BufReader::new(stream);
    let lines = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let lines: Vec<_> = lines.collect();
    let target = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let headers = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let mut request = Request { target, headers, body: String::new() };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    reader.take(length).read_to_string(&mut request.body).unwrap();
    request
}

fn send(mut stream: TcpStream, reply: &Reply) {
    let headers: String = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let (status, length) = (reply.status, reply.body.len());
    let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&reply.body));
}

impl Request {
    /// Returns a header; `None` without it.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

impl Reply {
    /// Returns a response with a body.
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.into() }
    }

    /// Returns a response without a body.
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Gives the response another status.
    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header to the response.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Returns the part of a content that a request asks for.
    pub(crate) fn range(request: &Request, content: &[u8]) -> Self {
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let Some((start, last)) = range else {
            return Self::ok(content);
        };
        let (start, end) = (start.parse().unwrap(), (last.parse::<usize>().unwrap() + 1).min(content.len()));
        let part = Self { status: 206, headers: Vec::new(), body: content[start..end].to_vec() };
        part.with("content-range", format!("bytes {start}-{}/{}", end - 1, content.len()))
    }
}

/// A directory with the fetched files.
pub(crate) struct Fetched(tempfile::TempDir);

impl Fetched {
    /// Returns the content of a file.
    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.0.path().join("model").join(path)).unwrap()
    }

    /// Returns the names at the root, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path().join("model")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Fetches a URI into a new directory, with two attempts.
pub(crate) async fn fetched(uri: &str, settings: &Fixed, limits: &Limits) -> Result<Fetched, FetchError> {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { attempts: 2, ..*limits };
    fetch_as(&settings.access(), uri, &folder.path().join("model"), &limits, &mut |_| ()).await?;
    Ok(Fetched(folder))
}

/// Returns bytes that differ from place to place.
pub(crate) fn content(length: usize) -> Vec<u8> {
    (0..length).map(|i| u8::try_from(i % 251).unwrap_or_default()).collect()
}
