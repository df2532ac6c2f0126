//! The cache: requests of clients, applied to the index and to the directory.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use weir_fetch::node_cache::{EntryManifest, POLL_TIME, read_manifest};

use crate::accounts::{Accounts, Namespace, TokenReviewer};
use crate::clock;
use crate::disk::{self, Disk};
use crate::error::CacheError;
use crate::index::{CacheLimits, Decision, Entry, EntryId, Index, LeaseId, Now};
use crate::metrics::{CacheMetrics, Outcome};

/// Maximum number of entries that are read at the same time, each by a thread with 1 MiB of chunks.
const READS: usize = 64;

/// Maximum number of entries that are stored at the same time. The list of files of each may have 32 MiB.
const UPLOADS: usize = 4;

/// A cache in a directory.
pub struct Agent {
    index: Mutex<Index>,
    disk: Disk,
    accounts: Accounts,
    /// Notified when an entry is stored, or a lease ends.
    changed: Notify,
    reads: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    metrics: CacheMetrics,
}

/// Answer to a client that asks for an entry.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// The entry, which has one more reader.
    Hit(Entry),
    /// The client fetches the files, with this lease.
    Fetch(LeaseId),
    /// The client has to ask again.
    Wait,
}

impl Agent {
    /// Opens the cache in a directory, which no other process may use, with the entries of an earlier process. Blocks while
    /// it reads the directory.
    ///
    /// # Errors
    /// [`CacheError::File`] if the directory cannot be read or written.
    pub fn open(
        directory: &Path,
        limits: CacheLimits,
        reviewer: Arc<dyn TokenReviewer>,
    ) -> Result<Arc<Self>, CacheError> {
        let disk = Disk::open(directory)?;
        let mut index = Index::new(limits);
        for (id, entry) in disk.load()? {
            if let Some(older) = index.add(id.clone(), entry) {
                disk.remove(&id, &older);
            }
        }
        index.shrink().iter().for_each(|(id, entry)| disk.remove(id, entry));
        let agent = Self {
            index: Mutex::new(index),
            disk,
            accounts: Accounts::new(reviewer),
            changed: Notify::new(),
            reads: Arc::new(Semaphore::new(READS)),
            uploads: Arc::new(Semaphore::new(UPLOADS)),
            metrics: CacheMetrics::default(),
        };
        agent.measure();
        Ok(Arc::new(agent))
    }

    /// Returns the metrics of the cache.
    #[must_use]
    pub fn metrics(&self) -> &CacheMetrics {
        &self.metrics
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Returns the namespace that a token proves.
    pub(crate) async fn namespace(&self, token: &str) -> Result<Namespace, CacheError> {
        self.accounts.namespace(token).await
    }

    /// Answers a client that asks for an entry. Waits up to [`POLL_TIME`] while another client fetches it.
    pub(crate) async fn ask(&self, id: &EntryId, bytes: Option<u64>) -> Result<Reply, CacheError> {
        let reply = self.wait(id, bytes).await;
        let outcome = match &reply {
            Ok(Reply::Hit(_)) => Outcome::Hit,
            Ok(Reply::Fetch(_)) => Outcome::Miss,
            Ok(Reply::Wait) => Outcome::Wait,
            Err(_) => Outcome::Refused,
        };
        self.metrics.count(outcome);
        if let Ok(Reply::Hit(entry)) = &reply {
            self.disk.touch(id, entry);
        }
        reply
    }

    async fn wait(&self, id: &EntryId, bytes: Option<u64>) -> Result<Reply, CacheError> {
        let lease = LeaseId::new(fastrand::u128(..));
        let deadline = clock::now() + POLL_TIME;
        loop {
            // Changes from here on are noticed.
            let changed = self.changed.notified();
            let decided = self.index.lock().ask(id, bytes, &lease, now())?;
            let expiry = match decided {
                Decision::Hit(entry) => return Ok(Reply::Hit(entry)),
                Decision::Fetch => return Ok(Reply::Fetch(lease)),
                Decision::Wait(expiry) => expiry,
            };
            if clock::now() >= deadline {
                return Ok(Reply::Wait);
            }
            let until = expiry.map_or(deadline, |expiry| expiry.min(deadline));
            let _ = tokio::time::timeout_at(until, changed).await;
        }
    }

    /// Waits for permission to read an entry.
    pub(crate) async fn read_permit(&self) -> Result<OwnedSemaphorePermit, CacheError> {
        self.reads.clone().acquire_owned().await.map_err(|_| CacheError::Busy)
    }

    /// Waits for permission to store an entry.
    pub(crate) async fn upload_permit(&self) -> Result<OwnedSemaphorePermit, CacheError> {
        self.uploads.clone().acquire_owned().await.map_err(|_| CacheError::Busy)
    }

    /// Decrements the number of an entry's readers.
    pub(crate) fn read(&self, id: &EntryId, entry: &Entry) {
        self.index.lock().read(id, &entry.directory);
    }

    /// Renews a lease, so that it lasts another full period.
    pub(crate) fn renew(&self, id: &EntryId, lease: &LeaseId) -> Result<(), CacheError> {
        self.index.lock().renew(id, lease, now())
    }

    /// Ends a lease, which passes to the next client.
    pub(crate) fn end(&self, id: &EntryId, lease: &LeaseId) -> Result<(), CacheError> {
        let ended = self.index.lock().end(id, lease, now());
        self.changed.notify_waiters();
        ended
    }

    /// Removes an entry after a client has reported that its files have other digests than the manifest says. Blocks
    /// while it removes the files.
    pub(crate) fn damaged(&self, id: &EntryId) {
        let removed = self.index.lock().remove(id);
        self.discard(id, removed);
    }

    /// Removes an entry whose files cannot be read, unless it has been stored again. Blocks while it removes the files.
    pub(crate) fn unreadable(&self, id: &EntryId, entry: &Entry) {
        let removed = self.index.lock().remove_from(id, &entry.directory);
        self.discard(id, removed);
    }

    fn discard(&self, id: &EntryId, removed: Option<Entry>) {
        if let Some(entry) = removed {
            tracing::warn!(namespace = %id.namespace, key = %id.key, "removed a damaged model");
            self.disk.remove(id, &entry);
            self.metrics.damaged.inc();
            self.measure();
        }
    }

    /// Stores the entry in a stream, and ends the lease. Blocks while it reads the stream.
    pub(crate) fn store(&self, id: &EntryId, lease: &LeaseId, stream: &mut impl Read) -> Result<(), CacheError> {
        let begun = self.begin(id, lease, stream);
        if begun.is_err() {
            // Fails if the lease is not held, or if another upload with it has begun, which needs its room.
            let _ = self.index.lock().end(id, lease, now());
        }
        let stored = begun.and_then(|manifest| self.receive(id, lease, manifest, stream));
        self.changed.notify_waiters();
        self.measure();
        stored
    }

    /// Makes room for the files of a stream, and returns the list of them at its beginning.
    fn begin(&self, id: &EntryId, lease: &LeaseId, stream: &mut impl Read) -> Result<EntryManifest, CacheError> {
        self.renew(id, lease)?;
        let manifest = read_manifest(stream).map_err(|error| CacheError::Invalid(error.to_string()))?;
        let removed = self.index.lock().begin(id, lease, disk::stored(&manifest), now())?;
        for (victim, entry) in removed {
            tracing::info!(namespace = %victim.namespace, key = %victim.key, bytes = entry.stored, "removed a model");
            self.disk.remove(&victim, &entry);
            self.metrics.evictions.inc();
        }
        Ok(manifest)
    }

    /// Stores the files of a stream for which there is room.
    fn receive(
        &self,
        id: &EntryId,
        lease: &LeaseId,
        manifest: EntryManifest,
        stream: &mut impl Read,
    ) -> Result<(), CacheError> {
        let stored = self.disk.store(id, lease, manifest, stream);
        let entry = stored.inspect_err(|_| self.index.lock().abandon(id, lease))?;
        self.metrics.received.inc_by(entry.bytes);
        self.index.lock().finish(id.clone(), entry);
        Ok(())
    }

    fn measure(&self) {
        let (entries, stored) = self.index.lock().size();
        self.metrics.entries.set(i64::try_from(entries).unwrap_or(i64::MAX));
        self.metrics.stored.set(i64::try_from(stored).unwrap_or(i64::MAX));
    }
}

fn now() -> Now {
    Now { timer: clock::now(), wall: clock::wall() }
}

#[cfg(test)]
mod tests {
    use std::io;

    use async_trait::async_trait;
    use weir_fetch::node_cache::{CachedFile, EntryKey, head};

    use super::*;
    use crate::accounts::ReviewError;

    struct NoReview;

    #[async_trait]
    impl TokenReviewer for NoReview {
        async fn review(&self, _: &str) -> Result<Option<Namespace>, ReviewError> {
            Ok(None)
        }
    }

    /// A stream of an entry, which calls a function before its last byte.
    struct Interrupted<F> {
        bytes: Vec<u8>,
        call: Option<F>,
    }

    impl<F: FnOnce()> Read for Interrupted<F> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.bytes.len() == 1
                && let Some(call) = self.call.take()
            {
                call();
            }
            let length = buffer.len().min(self.bytes.len().div_ceil(2));
            buffer[..length].copy_from_slice(&self.bytes[..length]);
            self.bytes.drain(..length);
            Ok(length)
        }
    }

    fn cache(folder: &Path) -> (Arc<Agent>, EntryId) {
        let agent = Agent::open(folder, CacheLimits::of_bytes(1 << 20), Arc::new(NoReview)).unwrap();
        let key = EntryKey::parse(&"a".repeat(64)).unwrap();
        (agent, EntryId { namespace: Namespace::parse("team").unwrap(), key })
    }

    fn stream() -> Vec<u8> {
        let file = CachedFile { path: "a".to_owned(), size: 5, sha256: None };
        let manifest = EntryManifest { files: vec![file], directories: Vec::new() };
        [head(&manifest).unwrap(), b"hello".to_vec()].concat()
    }

    #[tokio::test]
    async fn a_second_upload_with_a_lease_does_not_end_the_first_one() {
        let folder = tempfile::tempdir().unwrap();
        let (agent, id) = cache(folder.path());
        let Reply::Fetch(lease) = agent.ask(&id, None).await.unwrap() else { panic!("no lease") };
        let again = || {
            assert!(matches!(agent.store(&id, &lease, &mut &stream()[..]), Err(CacheError::NoLease)));
            assert!(matches!(agent.store(&id, &lease, &mut &b"nothing"[..]), Err(CacheError::Invalid(_))));
            let other = agent.index.lock().ask(&id, None, &LeaseId::new(1), now()).unwrap();
            assert_eq!(other, Decision::Wait(None));
        };
        agent.store(&id, &lease, &mut Interrupted { bytes: stream(), call: Some(again) }).unwrap();
        assert_eq!(agent.index.lock().size().0, 1);
    }

    #[tokio::test]
    async fn an_upload_that_fails_ends_its_lease() {
        let folder = tempfile::tempdir().unwrap();
        let (agent, id) = cache(folder.path());
        for refused in [&b"nothing"[..], &stream()[..stream().len() - 1]] {
            let Reply::Fetch(lease) = agent.ask(&id, None).await.unwrap() else { panic!("no lease") };
            assert!(matches!(agent.store(&id, &lease, &mut &*refused), Err(CacheError::Invalid(_))));
        }
        assert!(matches!(agent.ask(&id, None).await.unwrap(), Reply::Fetch(_)));
    }
}
