use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::access::settings::Fixed;
use crate::digest::Digest;
use crate::source::test_server::{Fetched, Reply, Request, TestServer, content, fetched};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Size of the large file: a piece of a download and a bit.
const LARGE: usize = 9 << 20;

/// A Hub with the model `org/name` on one port, and its storage on another.
struct World {
    hub: TestServer,
    storage: TestServer,
}

fn entry(path: &str, size: usize) -> serde_json::Value {
    serde_json::json!({"type": "file", "path": path, "size": size, "oid": format!("oid-{path}")})
}

impl World {
    /// Starts both servers. Before the storage sends a part, it answers by `interfere` if that returns a reply.
    fn start(interfere: impl Fn(usize, &Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let requests = AtomicUsize::new(0);
        let storage = TestServer::start(move |request| {
            let number = requests.fetch_add(1, Ordering::Relaxed);
            interfere(number, request).unwrap_or_else(|| Reply::range(request, &content(LARGE)))
        });
        let location = format!("http://{}/signed", storage.address);
        let resolve = format!("/org/name/resolve/{COMMIT}/");
        let hub = TestServer::start(move |request| {
            let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
            match path.strip_prefix(&resolve) {
                Some("weights/model%20a.bin") => Reply::status(302).with("location", &location),
                Some("config.json") => Reply::range(request, b"{}"),
                Some("empty") => Reply::ok(""),
                Some(_) => Reply::status(404).with("x-error-code", "EntryNotFound"),
                None => Self::api(path, query),
            }
        });
        Self { hub, storage }
    }

    fn api(path: &str, query: &str) -> Reply {
        let commit = serde_json::json!({"sha": COMMIT}).to_string();
        match path.strip_prefix("/api/models/org/name/") {
            Some("revision/main" | "revision/refs%2Fpr%2F1") => Reply::ok(commit),
            Some("revision/bad") => Reply::ok("{\"sha\": \"../x\"}"),
            Some("revision/gone") => Reply::status(404).with("x-error-code", "RevisionNotFound"),
            Some(tree) if tree == format!("tree/{COMMIT}") && query.ends_with("cursor=2") => {
                let mut large = entry("weights/model a.bin", 130);
                let oid = Digest::of(&content(LARGE)).hex().to_owned();
                large["lfs"] = serde_json::json!({"oid": oid, "size": LARGE, "pointerSize": 130});
                Reply::ok(serde_json::json!([large]).to_string())
            }
            Some(tree) if tree == format!("tree/{COMMIT}") => {
                let folder = serde_json::json!({"type": "directory", "path": "weights", "size": 0, "oid": "x"});
                let page = serde_json::json!([entry("config.json", 2), entry("empty", 0), folder]);
                let next = format!("<https://elsewhere/api?{query}&cursor=2>; rel=\"next\"");
                Reply::ok(page.to_string()).with("link", next)
            }
            _ => Reply::status(401).with("x-error-code", "RepoNotFound"),
        }
    }

    fn settings(&self) -> Fixed {
        let endpoint = ("HF_ENDPOINT", format!("http://{}", self.hub.address));
        Fixed { variables: vec![endpoint, ("HF_TOKEN", "hf_secret".to_owned())], ..Fixed::default() }
    }

    async fn fetch(&self, uri: &str) -> Result<Fetched, String> {
        let fetched = fetched(uri, &self.settings(), &Limits::default()).await;
        fetched.map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn all_files_of_one_commit_are_fetched() {
    let world = World::start(|_, _| None);
    let model = world.fetch("hf://org/name:refs/pr/1").await.unwrap();
    assert_eq!(model.names(), ["config.json", "empty", "weights"]);
    assert_eq!(model.read("config.json"), b"{}");
    assert!(model.read("empty").is_empty());
    assert!(model.read("weights/model a.bin") == content(LARGE));
    for request in world.hub.requests("/") {
        assert_eq!(request.header("authorization"), Some("Bearer hf_secret"), "{request:?}");
    }
    // The storage is another origin: the token is not for it.
    for request in world.storage.requests("/") {
        assert_eq!(request.header("authorization"), None, "{request:?}");
    }
    // The location is asked for once and then known.
    assert_eq!(world.hub.requests(&format!("/org/name/resolve/{COMMIT}/weights")).len(), 1);
    assert_eq!(world.storage.requests("/signed").len(), 2);
}

#[tokio::test]
async fn an_expired_location_is_asked_for_again() {
    let world = World::start(|number, _| (number == 1).then(|| Reply::status(403)));
    let model = world.fetch("hf://org/name").await.unwrap();
    assert!(model.read("weights/model a.bin") == content(LARGE));
}

#[tokio::test]
async fn patterns_choose_the_files() {
    let world = World::start(|_, _| None);
    let mut settings = world.settings();
    settings.variables.push(("STORAGE_IGNORE_PATTERNS", "weights/*".to_owned()));
    let model = fetched("hf://org/name", &settings, &Limits::default()).await.unwrap();
    assert_eq!(model.names(), ["config.json", "empty"]);
    assert!(world.storage.requests("/").is_empty());
    settings.variables.push(("STORAGE_ALLOW_PATTERNS", "*.safetensors".to_owned()));
    let error = fetched("hf://org/name", &settings, &Limits::default()).await.err().unwrap().to_string();
    assert_eq!(error, "hf://org/name:main: the model has no file that the patterns choose");
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let world = World::start(|_, _| None);
    for (uri, expected) in [
        ("hf://org/name:gone", "hf://org/name:gone: the model has no branch, tag or commit gone"),
        ("hf://org/name:bad", "a commit that is no hash: check HF_ENDPOINT"),
        ("hf://org/other", "hf://org/other:main: the Hub has no such model, or the token may not read it"),
    ] {
        let error = world.fetch(uri).await.err().unwrap();
        assert!(error.contains(expected), "{uri}: {error}");
        assert!(!error.contains("hf_secret"));
    }
}

#[tokio::test]
async fn limits_hold() {
    let world = World::start(|_, _| None);
    for (limits, expected) in [
        (Limits { entries: 2, ..Limits::default() }, "the number of files of hf://org/name:main exceeds 2"),
        (Limits { download: 1000, ..Limits::default() }, "exceeds 1000"),
    ] {
        let error = fetched("hf://org/name", &world.settings(), &limits).await.err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(world.storage.requests("/").is_empty());
}

#[tokio::test]
async fn pages_without_files_end() {
    let hub = TestServer::start(|request| {
        if request.target.contains("/revision/") {
            return Reply::ok(serde_json::json!({"sha": COMMIT}).to_string());
        }
        Reply::ok("[]").with("link", "<https://a/?cursor=1>; rel=\"next\"")
    });
    let endpoint = ("HF_ENDPOINT", format!("http://{}", hub.address));
    let settings = Fixed { variables: vec![endpoint], ..Fixed::default() };
    let limits = Limits { entries: 3, ..Limits::default() };
    let error = fetched("hf://org/name", &settings, &limits).await.err().unwrap().to_string();
    assert!(error.contains("the model has no file"), "{error}");
    assert_eq!(hub.requests("/api/models/org/name/tree/").len(), 4);
}

/// A gated model answers the list of its files, but not the files.
#[tokio::test]
async fn a_gated_model_names_the_page_of_its_licence() {
    let hub = Arc::new(TestServer::start(|request| {
        if request.target.contains("/resolve/") {
            return Reply::status(401).with("x-error-code", "GatedRepo");
        }
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        World::api(path, query)
    }));
    let endpoint = ("HF_ENDPOINT", format!("http://{}", hub.address));
    let settings = Fixed { variables: vec![endpoint], ..Fixed::default() };
    let error = fetched("hf://org/name", &settings, &Limits::default()).await.err().unwrap().to_string();
    let page = format!("http://{}/org/name", hub.address);
    let expected = format!("hf://org/name:main: the model is gated: accept its licence at {page} and set HF_TOKEN");
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_rate_limit_is_waited_for() {
    let failures = AtomicUsize::new(0);
    let hub = TestServer::start(move |request| {
        if failures.fetch_add(1, Ordering::Relaxed) == 0 {
            return Reply::status(429).with("retry-after", "1");
        }
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        if path.ends_with("/config.json") { Reply::range(request, b"{}") } else { World::api(path, query) }
    });
    let endpoint = ("HF_ENDPOINT", format!("http://{}", hub.address));
    let only = ("STORAGE_ALLOW_PATTERNS", "config.json".to_owned());
    let settings = Fixed { variables: vec![endpoint, only], ..Fixed::default() };
    let model = fetched("hf://org/name", &settings, &Limits::default()).await.unwrap();
    assert_eq!(model.read("config.json"), b"{}");
}
