//! Pods of one node, as `weir fetch` clients, at a real port of the cache and a server that counts what it sends.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use weir_fetch::node_cache::{NodeCache, head};
use weir_fetch::{Access, Fetch, FetchError, Limits};
use weir_model_cache::{Agent, CacheLimits, Namespace, ReviewError, TokenReviewer, serve};

/// A web server with one archive.
struct Origin {
    url: String,
    state: Arc<Served>,
}

#[derive(Default)]
struct Served {
    content: Mutex<Vec<u8>>,
    /// Version of the content, which is its entity tag.
    version: AtomicUsize,
    downloads: AtomicUsize,
    lists: AtomicUsize,
    /// Number of downloads that get no byte.
    stalled: AtomicUsize,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/models/m.tar", listener.local_addr().unwrap());
        let state = Arc::new(Served::default());
        *state.content.lock().unwrap() = archive(b"weights");
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), shared.clone());
                std::thread::spawn(move || shared.answer(stream));
            }
        });
        Self { url, state }
    }

    /// Returns the number of downloads so far. Each client has listed the file before.
    fn downloads(&self) -> usize {
        self.state.downloads.load(Ordering::SeqCst)
    }
}

impl Served {
    fn answer(&self, mut stream: TcpStream) {
        let lines = BufReader::new(&stream).lines().map(Result::unwrap);
        let request = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
        let content = self.content.lock().unwrap().clone();
        let version = self.version.load(Ordering::SeqCst);
        let head = format!(
            "HTTP/1.1 200 OK\r\netag: \"{version}\"\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            content.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        if request.starts_with("HEAD ") {
            self.lists.fetch_add(1, Ordering::SeqCst);
            return;
        }
        self.downloads.fetch_add(1, Ordering::SeqCst);
        if self.stalled.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            // Ends when the client is gone.
            let _ = stream.read(&mut [0]);
            return;
        }
        let _ = stream.write_all(&content);
    }
}

/// Returns an archive with a file and an empty directory.
fn archive(weights: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(weights.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append_data(&mut header, "digits/1/model.pt", weights).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    header.set_mode(0o755);
    header.set_cksum();
    builder.append_data(&mut header, "ensemble/1/", &[][..]).unwrap();
    builder.into_inner().unwrap()
}

/// An API server that accepts `token-of-NAMESPACE`.
struct Fake;

#[async_trait]
impl TokenReviewer for Fake {
    async fn review(&self, token: &str) -> Result<Option<Namespace>, ReviewError> {
        Ok(token.strip_prefix("token-of-").and_then(Namespace::parse))
    }
}

/// A node with a cache, and volumes for its pods.
struct Node {
    folder: TempDir,
    address: SocketAddr,
    agent: Arc<Agent>,
    notes: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

impl Node {
    fn start() -> Self {
        Self::with(CacheLimits::of_bytes(1 << 30))
    }

    fn with(limits: CacheLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::open(&folder.path().join("cache"), limits, Arc::new(Fake)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        tokio::spawn(serve(agent.clone(), listener, stop.clone()));
        Self { folder, address, agent, notes: Arc::default(), _stop: stop.drop_guard() }
    }

    fn cache(&self, namespace: &str) -> NodeCache {
        let token = self.folder.path().join(format!("token-{namespace}"));
        // The kubelet replaces a token at once as well: another pod may be reading it.
        let new = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
        fs::write(new.path(), format!("token-of-{namespace}\n")).unwrap();
        new.persist(&token).unwrap();
        let notes = self.notes.clone();
        let note = move |text: &str| notes.lock().unwrap().push(text.to_owned());
        NodeCache::new(&format!("http://{}", self.address), &token, note).unwrap()
    }

    /// Fetches as a pod with this name, into its own volume.
    fn fetch(
        &self,
        origin: &Origin,
        namespace: &str,
        pod: &str,
    ) -> impl Future<Output = Result<PathBuf, FetchError>> + use<> {
        let (cache, target, url) = (self.cache(namespace), self.folder.path().join(pod), origin.url.clone());
        async move {
            let (access, limits) = (Access::default(), Limits::default());
            let fetch = Fetch { access: &access, limits: &limits, cache: Some(&cache) };
            fetch.run(&url, &target, &mut |_| {}).await.map(|()| target)
        }
    }

    fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap())
    }

    /// Returns the paths of files of entries with this number.
    fn stored(&self, namespace: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("cache/entries").join(namespace));
        entries.into_iter().flatten().map(|entry| entry.unwrap().path().join("0")).collect()
    }

    /// Sends a request, and returns the answer.
    fn request(&self, head: &str, body: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let length = body.len();
        let head = format!("{head}\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn assert_complete(target: &Path, weights: &[u8]) {
    assert_eq!(fs::read(target.join("digits/1/model.pt")).unwrap(), weights);
    assert!(target.join("ensemble/1").is_dir());
    let left = fs::read_dir(target).unwrap().count();
    assert_eq!(left, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_pod_downloads_nothing_and_a_new_version_is_another_entry() {
    let (origin, node) = (Origin::start(), Node::start());
    assert_complete(&node.fetch(&origin, "a", "first").await.unwrap(), b"weights");
    assert_complete(&node.fetch(&origin, "a", "second").await.unwrap(), b"weights");
    assert_eq!((origin.downloads(), origin.state.lists.load(Ordering::SeqCst)), (1, 2));
    *origin.state.content.lock().unwrap() = archive(b"WEIGHTS");
    origin.state.version.fetch_add(1, Ordering::SeqCst);
    assert_complete(&node.fetch(&origin, "a", "third").await.unwrap(), b"WEIGHTS");
    assert_complete(&node.fetch(&origin, "a", "fourth").await.unwrap(), b"WEIGHTS");
    assert_eq!((origin.downloads(), node.stored("a").len(), node.notes()), (2, 2, Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_pods_that_start_together_download_once() {
    let (origin, node) = (Origin::start(), Node::start());
    let mut pods = JoinSet::new();
    for pod in 0..20 {
        pods.spawn(node.fetch(&origin, "a", &pod.to_string()));
    }
    for target in pods.join_all().await {
        assert_complete(&target.unwrap(), b"weights");
    }
    assert_eq!((origin.downloads(), node.notes()), (1, Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_entry_is_noticed_and_fetched_again() {
    let (origin, node) = (Origin::start(), Node::start());
    node.fetch(&origin, "a", "first").await.unwrap();
    fs::write(&node.stored("a")[0], b"weightS").unwrap();
    assert_complete(&node.fetch(&origin, "a", "second").await.unwrap(), b"weights");
    assert!(node.notes()[0].contains("is damaged in the node's model cache"));
    fs::remove_file(&node.stored("a")[0]).unwrap();
    assert_complete(&node.fetch(&origin, "a", "third").await.unwrap(), b"weights");
    assert_eq!(origin.downloads(), 3);
    node.notes();
    assert_complete(&node.fetch(&origin, "a", "fourth").await.unwrap(), b"weights");
    assert_complete(&node.fetch(&origin, "a", "fifth").await.unwrap(), b"weights");
    assert_eq!((origin.downloads(), node.notes()), (4, Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_pod_leaves_its_lease_to_the_next() {
    let origin = Origin::start();
    let node = Node::with(CacheLimits { bytes: 1 << 30, lease: Duration::from_secs(1) });
    origin.state.stalled.store(1, Ordering::SeqCst);
    let killed = tokio::spawn(node.fetch(&origin, "a", "killed"));
    let begun = async {
        while origin.downloads() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), begun).await.unwrap();
    killed.abort();
    assert_complete(&node.fetch(&origin, "a", "next").await.unwrap(), b"weights");
    assert_complete(&node.fetch(&origin, "a", "third").await.unwrap(), b"weights");
    assert_eq!((origin.downloads(), node.notes()), (2, Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_gets_no_entry_of_another_one() {
    let (origin, node) = (Origin::start(), Node::start());
    node.fetch(&origin, "a", "first").await.unwrap();
    assert_complete(&node.fetch(&origin, "b", "second").await.unwrap(), b"weights");
    assert_eq!((origin.downloads(), node.stored("a").len(), node.stored("b").len()), (2, 1, 1));
    let key = node.stored("a")[0].parent().unwrap().file_name().unwrap().to_str().unwrap()[..64].to_owned();
    let get = |who: &str| node.request(&format!("GET /v1/entries/{key} HTTP/1.1{who}"), b"");
    assert!(get("\r\nauthorization: Bearer token-of-a").starts_with("HTTP/1.1 200"));
    assert!(get("\r\nauthorization: Bearer token-of-c").contains("\"fetch\""));
    for who in ["", "\r\nauthorization: Bearer guess", "\r\nauthorization: Basic token-of-a"] {
        assert!(get(who).starts_with("HTTP/1.1 401"), "{who}");
    }
    let remove = format!("DELETE /v1/entries/{key} HTTP/1.1\r\nauthorization: Bearer token-of-c");
    assert!(node.request(&remove, b"").starts_with("HTTP/1.1 204"));
    assert!(node.stored("a")[0].exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_pod_fetches_from_the_source() {
    let (origin, node) = (Origin::start(), Node::start());
    assert_complete(&node.fetch(&origin, "NO", "first").await.unwrap(), b"weights");
    let notes = node.notes();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("it answered 401"), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_cache_costs_one_line() {
    let (origin, node) = (Origin::start(), Node::start());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let node = Node { address: free, ..node };
    assert_complete(&node.fetch(&origin, "a", "first").await.unwrap(), b"weights");
    let notes = node.notes();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("cannot be reached"), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_recently_used_model_makes_room() {
    // Each entry has two blocks of 4 KiB and its directory.
    let node = Node::with(CacheLimits::of_bytes(7 * 4096));
    let origins = [Origin::start(), Origin::start(), Origin::start()];
    for (number, origin) in origins.iter().enumerate().take(2) {
        node.fetch(origin, "a", &format!("first-{number}")).await.unwrap();
    }
    node.fetch(&origins[0], "a", "used").await.unwrap();
    node.fetch(&origins[2], "a", "new").await.unwrap();
    assert_eq!(node.stored("a").len(), 2);
    node.fetch(&origins[0], "a", "again").await.unwrap();
    let downloads = origins.each_ref().map(Origin::downloads);
    assert_eq!((downloads, node.notes()), ([1, 1, 1], Vec::new()));
    node.fetch(&origins[1], "a", "evicted").await.unwrap();
    assert_eq!(origins[1].downloads(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_cannot_store_harms_no_pod() {
    let (origin, node) = (Origin::start(), Node::with(CacheLimits::of_bytes(2048)));
    assert_complete(&node.fetch(&origin, "a", "first").await.unwrap(), b"weights");
    assert!(node.notes()[0].contains("413"));
    let node = Node::start();
    let staged = node.folder.path().join("cache/staged");
    fs::remove_dir(&staged).unwrap();
    fs::write(&staged, "no directory").unwrap();
    assert_complete(&node.fetch(&origin, "a", "first").await.unwrap(), b"weights");
    let notes = node.notes();
    assert!(notes[0].contains("not kept in the node's model cache"), "{notes:?}");
    // The lease has ended, and so the next pod does not wait.
    assert_complete(&node.fetch(&origin, "a", "second").await.unwrap(), b"weights");
    assert_eq!(origin.downloads(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_uploads_are_refused() {
    let node = Node::start();
    let key = "0".repeat(64);
    let authorization = "authorization: Bearer token-of-a";
    let lease = || {
        let answer = node.request(&format!("GET /v1/entries/{key} HTTP/1.1\r\n{authorization}"), b"");
        answer.split("\"fetch\":\"").nth(1).unwrap()[..32].to_owned()
    };
    let put = |lease: &str, body: &[u8]| {
        node.request(&format!("PUT /v1/entries/{key} HTTP/1.1\r\n{authorization}\r\nweir-lease: {lease}"), body)
    };
    assert!(put(&"0".repeat(32), b"").starts_with("HTTP/1.1 409"));
    for path in ["../../evil", "/evil", "a/../../evil"] {
        let json = format!(r#"{{"files":[{{"path":"{path}","size":4}}],"directories":[]}}"#);
        let length = u32::try_from(json.len()).unwrap().to_be_bytes();
        let answer = put(&lease(), &[&length[..], json.as_bytes(), b"evil"].concat());
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("the entry has the file"), "{answer}");
    }
    let huge = br#"{"files":[{"path":"a","size":18446744073709551615}],"directories":[]}"#;
    let length = u32::try_from(huge.len()).unwrap().to_be_bytes();
    assert!(put(&lease(), &[&length[..], huge].concat()).starts_with("HTTP/1.1 413"));
    assert!(put(&lease(), &[0xff; 64]).starts_with("HTTP/1.1 400"));
    let empty = head(&weir_fetch::node_cache::EntryManifest::default()).unwrap();
    assert!(put(&lease(), &[&empty[..], b"more"].concat()).contains("more bytes"));
    assert!(node.stored("a").is_empty());
    assert!(node.request(&format!("GET /v1/entries/..%2f..%2fetc HTTP/1.1\r\n{authorization}"), b"").contains("400"));
    let metrics = {
        let mut registry = prometheus_client::registry::Registry::default();
        node.agent.metrics().register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    assert!(metrics.contains("weir_model_cache_models 0"), "{metrics}");
}
