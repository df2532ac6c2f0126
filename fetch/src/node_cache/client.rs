//! The client of a cache.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reqwest::redirect::Policy;
use reqwest::{Body, Client, Method, Response, StatusCode, Url};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::framing::chunks;
use super::key::EntryKey;
use super::lease::{Lease, Renewals};
use super::receive::{Received, receive, remove};
use super::send::{list, send};
use super::{Answer, ENTRIES, LEASE};
use crate::limits::Limits;
use crate::web::{causes, unreachable};

/// Longest time for the lookup of the cache's name and the connection to it. A node that starts twenty pods at once may take
/// seconds for them. Where a node has no cache, the connection is refused at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time without a byte of an answer: twice the longest time for which a cache holds a request back.
const STALL: Duration = Duration::from_secs(30);

/// Longest wait for another client. It covers a fetch of 64 GiB at 40 MB/s.
const LONGEST_WAIT: Duration = Duration::from_secs(1800);

/// Minimum rate in bytes per second at which a client reads an entry, after a grace period of [`STALL`]. All pods of a node
/// may read at once: a disk of 125 MB/s gives each of 100 pods this rate. If they gave up, all of them would download.
const MIN_READ_RATE: u64 = 1 << 20;

/// Minimum rate in bytes per second at which a client stores an entry, after a grace period of [`STALL`]. One client
/// stores an entry, and its model server starts only afterwards.
const MIN_STORE_RATE: u64 = 8 << 20;

/// Number of chunks between the thread that reads files and their upload.
const CHUNKS: usize = 8;

/// Maximum length of a reason that a cache gives.
const MAX_REASON: usize = 200;

/// A function that shows a sentence to the user.
type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// A client of the cache of this node.
#[derive(Clone)]
pub struct NodeCache {
    client: Client,
    /// Client of uploads, during which no byte of an answer arrives.
    uploads: Client,
    url: Url,
    /// File with the token that proves the client's namespace.
    token: PathBuf,
    note: Note,
}

/// Contribution of the cache to a fetch.
pub(crate) enum Provided {
    /// All files are in the directory; their size in bytes.
    Files(u64),
    /// This client fetches the files for the node.
    Lease(Lease),
    /// The cache contributes nothing: the files come from the source, and are not stored.
    Nothing,
}

/// Answer of the cache to a request for an entry.
enum EntryAnswer {
    Files(Response),
    Lease(Lease),
}

impl fmt::Debug for NodeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeCache").field("url", &self.url.as_str()).field("token", &self.token).finish_non_exhaustive()
    }
}

impl NodeCache {
    /// Returns a client of the cache at this URL. The file has a token of a Kubernetes ServiceAccount, and is read before
    /// each request. `note` shows a sentence about a cache that cannot be used.
    ///
    /// # Errors
    /// A clause that says why the URL cannot be used.
    pub fn new(url: &str, token: &Path, note: impl Fn(&str) + Send + Sync + 'static) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        if url.scheme() != "http" || url.host_str().is_none() {
            return Err("the URL of a cache must be http://HOST:PORT".to_owned());
        }
        // reqwest needs a crypto library even for plain HTTP; any one works.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The token must not leave the node, and so neither proxies nor redirects are used.
        let builder = || {
            let builder = Client::builder().no_proxy().redirect(Policy::none()).http1_only();
            builder.connect_timeout(CONNECT_TIMEOUT)
        };
        let client = builder().read_timeout(STALL).build().map_err(|error| causes(&error))?;
        let uploads = builder().build().map_err(|error| causes(&error))?;
        Ok(Self { client, uploads, url, token: token.to_owned(), note: Arc::new(note) })
    }

    /// Provides the files of an entry in a new directory, or permission to fetch them for the node. `bytes` is the size of
    /// the source; `None` if it is unknown. A damaged entry is removed, and asked for once more.
    pub(crate) async fn provide(
        &self,
        key: Option<&EntryKey>,
        bytes: Option<u64>,
        folder: &Path,
        limits: &Limits,
    ) -> Provided {
        let provided = match key {
            Some(key) => self.try_provide(key, bytes, folder, limits).await,
            None => Err("the source says no version of its files".to_owned()),
        };
        if !matches!(provided, Ok(Provided::Files(_))) {
            // The files of an incomplete attempt would count against the volume's size.
            let _ = remove(folder);
        }
        provided.unwrap_or_else(|reason| {
            (self.note)(&format!("the node's model cache is not used: {reason}; fetching from the source"));
            Provided::Nothing
        })
    }

    async fn try_provide(
        &self,
        key: &EntryKey,
        bytes: Option<u64>,
        folder: &Path,
        limits: &Limits,
    ) -> Result<Provided, String> {
        for _ in 0..2 {
            let asked = timeout(LONGEST_WAIT, self.ask(key, bytes)).await;
            let asked = asked.map_err(|_| "another pod of this node has not fetched the files in half an hour")??;
            let response = match asked {
                EntryAnswer::Lease(lease) => return Ok(Provided::Lease(lease)),
                EntryAnswer::Files(response) => response,
            };
            match self.receive(response, folder, limits).await? {
                Received::Complete(bytes) => return Ok(Provided::Files(bytes)),
                Received::Damaged(path) => {
                    (self.note)(&format!("{path} is damaged in the node's model cache; its entry is removed"));
                    self.call(Method::DELETE, &entry(key), None).await?;
                }
            }
        }
        Err("its entry is damaged".to_owned())
    }

    /// Asks for an entry until the answer is something other than to wait.
    async fn ask(&self, key: &EntryKey, bytes: Option<u64>) -> Result<EntryAnswer, String> {
        let query = bytes.map(|bytes| format!("?bytes={bytes}")).unwrap_or_default();
        let path = format!("{}{query}", entry(key));
        loop {
            let response = self.call(Method::GET, &path, None).await?;
            if response.status() == StatusCode::OK {
                return Ok(EntryAnswer::Files(response));
            }
            let text = small(response).await;
            match serde_json::from_str(&text).map_err(|_| "its answer is not understood".to_owned())? {
                Answer::Fetch(id) => return Ok(EntryAnswer::Lease(Lease { key: key.clone(), id })),
                Answer::Wait => {}
            }
        }
    }

    async fn receive(&self, response: Response, folder: &Path, limits: &Limits) -> Result<Received, String> {
        let allowance = allowance(response.content_length().unwrap_or(limits.unpacked), MIN_READ_RATE);
        let (sender, mut reader) = chunks();
        let (folder, limits) = (folder.to_owned(), *limits);
        let written = tokio::task::spawn_blocking(move || receive(&mut reader, &folder, &limits));
        let pumped = timeout(allowance, async move {
            let mut body = response.bytes_stream();
            while let Some(chunk) = body.next().await {
                let chunk = chunk.map_err(|_| "the connection to it ended early".to_owned())?;
                if sender.send(chunk).await.is_err() {
                    break;
                }
            }
            Ok::<_, String>(())
        })
        .await;
        // The thread has ended before its directory is removed.
        let written = written.await.map_err(|error| error.to_string())?;
        pumped.map_err(|_| "it is too slow".to_owned())??;
        written.map_err(|error| error.to_string())
    }

    /// Returns a task that keeps a lease until it is dropped.
    pub(crate) fn keep(&self, lease: &Lease) -> Renewals {
        let (cache, lease) = (self.clone(), lease.clone());
        Renewals::start(move || {
            let (cache, lease) = (cache.clone(), lease.clone());
            async move {
                // A lease that is lost is noticed when the files are stored.
                let _ = cache.call(Method::POST, &format!("{}/lease", entry(&lease.key)), Some((&lease, None))).await;
            }
        })
    }

    /// Ends a lease whose files are not stored, so that the next client need not wait until it expires.
    pub(crate) async fn release(&self, lease: &Lease) {
        let _ = self.call(Method::DELETE, &format!("{}/lease", entry(&lease.key)), Some((lease, None))).await;
    }

    /// Stores the files of a directory, and ends the lease. A failure is only noted.
    pub(crate) async fn store(&self, lease: &Lease, folder: &Path) {
        if let Err(reason) = self.try_store(lease, folder).await {
            self.release(lease).await;
            (self.note)(&format!("the files are not kept in the node's model cache: {reason}"));
        }
    }

    async fn try_store(&self, lease: &Lease, folder: &Path) -> Result<(), String> {
        let listed = folder.to_owned();
        let manifest = tokio::task::spawn_blocking(move || list(&listed)).await.map_err(|error| error.to_string())?;
        let manifest = manifest.map_err(|error| error.to_string())?;
        let allowance = allowance(manifest.bytes(), MIN_STORE_RATE);
        let (sender, mut receiver) = mpsc::channel(CHUNKS);
        let folder = folder.to_owned();
        let reading = tokio::task::spawn_blocking(move || send(&folder, &manifest, &sender));
        let body = Body::wrap_stream(stream::poll_fn(move |context| receiver.poll_recv(context)));
        let stored = timeout(allowance, self.call(Method::PUT, &entry(&lease.key), Some((lease, Some(body))))).await;
        // The body is dropped by now, which ends the thread.
        let _ = reading.await;
        stored.map_err(|_| "it is too slow".to_owned())?.map(|_| ())
    }

    /// Sends a request, and returns the answer if its status says success.
    async fn call(&self, method: Method, path: &str, with: Option<(&Lease, Option<Body>)>) -> Result<Response, String> {
        let token = tokio::fs::read_to_string(&self.token).await;
        let token = token.map_err(|error| format!("the token {} cannot be read ({error})", self.token.display()))?;
        let url = self.url.join(path).map_err(|error| error.to_string())?;
        let client = if method == Method::PUT { &self.uploads } else { &self.client };
        let mut request = client.request(method, url).bearer_auth(token.trim());
        if let Some((lease, body)) = with {
            request = request.header(LEASE, &lease.id);
            if let Some(body) = body {
                request = request.body(body);
            }
        }
        let response = request.send().await.map_err(|error| unreachable(&self.url, &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        Err(format!("it answered {status} ({})", small(response).await.trim()))
    }
}

fn entry(key: &EntryKey) -> String {
    format!("{ENTRIES}{key}")
}

/// Returns the longest time for a number of bytes at a minimum rate in bytes per second.
fn allowance(bytes: u64, rate: u64) -> Duration {
    STALL + Duration::from_secs(bytes / rate)
}

/// Reads a short text, and cuts a long one.
async fn small(response: Response) -> String {
    let mut text = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(Ok(chunk)) = body.next().await {
        text.extend_from_slice(&chunk);
        if text.len() >= MAX_REASON {
            break;
        }
    }
    text.truncate(MAX_REASON);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_urls_are_caches() {
        let new = |url: &str| NodeCache::new(url, Path::new("token"), |_| {}).map(drop);
        assert_eq!(new("http://weir-model-cache.weir-system.svc:8082"), Ok(()));
        for other in ["https://a", "file:///a", "a:80", ""] {
            assert!(new(other).is_err(), "{other}");
        }
    }

    #[test]
    fn the_time_for_an_entry_follows_its_size() {
        assert_eq!(allowance(0, 8 << 20), STALL);
        assert_eq!(allowance(80 << 20, 8 << 20), STALL + Duration::from_secs(10));
    }
}
