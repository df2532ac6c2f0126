//! The entries and leases of a cache, and all decisions about them. The state is pure: it uses no clock, random
//! numbers, disk or network.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use weir_fetch::eviction::{Candidate, Eviction};
use weir_fetch::node_cache::{EntryKey, LEASE_TIME};

use crate::accounts::Namespace;
use crate::error::CacheError;

/// Maximum number of leases at the same time.
const MAX_LEASES: usize = 256;

/// Maximum number of leases of one namespace: more than a node has GPUs, and a quarter of all.
const LEASES_PER_NAMESPACE: usize = 64;

/// Number of leases that are reserved for namespaces with few leases, so that other namespaces cannot hold all of them.
const KEPT_LEASES: usize = 64;

/// Maximum number of leases with which a namespace may still get a reserved one.
const FEW_LEASES: usize = 4;

/// Time without use after which a model may be evicted for one of another namespace, even if its own namespace has no
/// more than an equal share.
const PROTECTED: Duration = Duration::from_secs(24 * 60 * 60);

/// Identity of an entry. The key alone never identifies an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryId {
    pub(crate) namespace: Namespace,
    pub(crate) key: EntryKey,
}

/// Identity of a lease: a random number, which other clients cannot guess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseId(String);

impl LeaseId {
    /// Returns the identity with this number.
    pub(crate) fn new(number: u128) -> Self {
        Self(format!("{number:032x}"))
    }

    /// Parses 32 hexadecimal digits. Returns `None` for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_digit = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 32 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A model that is stored in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Name of the directory, below that of the namespace.
    pub(crate) directory: String,
    /// Number of files in the directory.
    pub(crate) files: usize,
    /// Bytes of the files, without the manifest.
    pub(crate) bytes: u64,
    /// Bytes that the entry takes on disk.
    pub(crate) stored: u64,
    pub(crate) last_use: SystemTime,
    /// Number of clients that read the entry.
    pub(crate) readers: u32,
}

/// Permission of one client to fetch the files of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    id: LeaseId,
    state: LeaseState,
}

/// Stage of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseState {
    /// The client fetches from the source; the lease expires at this time.
    Fetching(Instant),
    /// The client sends files of this many bytes on disk. The connection's own limits end an upload that stalls.
    Storing(u64),
}

/// Answer to a client that asks for an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The entry is stored, and has one more reader.
    Hit(Entry),
    /// The client has the lease.
    Fetch,
    /// Another client has the lease, which expires at this time; `None` while files are stored.
    Wait(Option<Instant>),
}

/// Time of a decision, on the clock of timers and on the wall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) timer: Instant,
    pub(crate) wall: SystemTime,
}

/// Limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Maximum number of bytes on disk.
    pub bytes: u64,
    /// Time after which a lease that is not renewed passes to the next client.
    pub lease: Duration,
}

impl CacheLimits {
    /// Returns the limits of a cache with this number of bytes, whose clients renew their leases as `weir fetch` does.
    #[must_use]
    pub const fn of_bytes(bytes: u64) -> Self {
        Self { bytes, lease: LEASE_TIME }
    }
}

/// Entries and leases of a cache with a limit.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    limits: CacheLimits,
    entries: BTreeMap<EntryId, Entry>,
    leases: BTreeMap<EntryId, Lease>,
}

impl Index {
    /// Returns an empty index.
    pub(crate) fn new(limits: CacheLimits) -> Self {
        Self { limits, entries: BTreeMap::new(), leases: BTreeMap::new() }
    }

    /// Returns the number of entries, and their bytes on disk.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.entries.len(), self.entries.values().map(|entry| entry.stored).sum())
    }

    /// Answers a client that asks for an entry. `bytes` is the size of the source; `None` if it is unknown. `lease` is the
    /// identity of a new lease.
    ///
    /// # Errors
    /// [`CacheError::TooLarge`] for a source that exceeds the limit, [`CacheError::Busy`] if there are too many leases.
    pub(crate) fn ask(
        &mut self,
        id: &EntryId,
        bytes: Option<u64>,
        lease: &LeaseId,
        now: Now,
    ) -> Result<Decision, CacheError> {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.readers += 1;
            entry.last_use = now.wall;
            return Ok(Decision::Hit(entry.clone()));
        }
        self.leases.retain(|_, lease| !lease.is_expired(now.timer));
        if let Some(lease) = self.leases.get(id) {
            return Ok(Decision::Wait(lease.expiry()));
        }
        if bytes.is_some_and(|bytes| bytes > self.limits.bytes) {
            return Err(CacheError::TooLarge { limit: self.limits.bytes });
        }
        if !self.has_lease_for(&id.namespace) {
            return Err(CacheError::Busy);
        }
        let state = LeaseState::Fetching(now.timer + self.limits.lease);
        self.leases.insert(id.clone(), Lease { id: lease.clone(), state });
        Ok(Decision::Fetch)
    }

    /// Decrements the number of an entry's readers.
    pub(crate) fn read(&mut self, id: &EntryId, directory: &str) {
        // The entry may have been removed as damaged, and stored again.
        if let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.directory == directory) {
            entry.readers = entry.readers.saturating_sub(1);
        }
    }

    /// Renews a lease.
    ///
    /// # Errors
    /// [`CacheError::NoLease`] if the client does not have it.
    pub(crate) fn renew(&mut self, id: &EntryId, lease: &LeaseId, now: Now) -> Result<(), CacheError> {
        let until = now.timer + self.limits.lease;
        let held = self.held(id, lease, now)?;
        if let LeaseState::Fetching(expiry) = &mut held.state {
            *expiry = until;
        }
        Ok(())
    }

    /// Makes room for files of `stored` bytes on disk, and lets the lease last until they are stored. Returns the removed
    /// entries, whose directories the caller removes.
    ///
    /// # Errors
    /// [`CacheError::NoLease`], [`CacheError::TooLarge`], and [`CacheError::Full`] if entries in use leave no room; then
    /// nothing is removed.
    pub(crate) fn begin(
        &mut self,
        id: &EntryId,
        lease: &LeaseId,
        stored: u64,
        now: Now,
    ) -> Result<Vec<(EntryId, Entry)>, CacheError> {
        let held = self.held(id, lease, now)?;
        if matches!(held.state, LeaseState::Storing(_)) {
            return Err(CacheError::NoLease);
        }
        if stored > self.limits.bytes {
            return Err(CacheError::TooLarge { limit: self.limits.bytes });
        }
        let victims = self.victims(&id.namespace, stored, now)?;
        if let Some(held) = self.leases.get_mut(id) {
            held.state = LeaseState::Storing(stored);
        }
        Ok(victims.into_iter().filter_map(|id| self.entries.remove_entry(&id)).collect())
    }

    /// Adds the entry whose files were stored, and ends the lease.
    pub(crate) fn finish(&mut self, id: EntryId, entry: Entry) {
        self.leases.remove(&id);
        self.entries.insert(id, entry);
    }

    /// Ends a lease at the request of its client.
    ///
    /// # Errors
    /// [`CacheError::NoLease`] if the client does not have it, or stores files: their room stays reserved until the upload
    /// ends.
    pub(crate) fn end(&mut self, id: &EntryId, lease: &LeaseId, now: Now) -> Result<(), CacheError> {
        if matches!(self.held(id, lease, now)?.state, LeaseState::Storing(_)) {
            return Err(CacheError::NoLease);
        }
        self.leases.remove(id);
        Ok(())
    }

    /// Ends the lease of an upload that has failed.
    pub(crate) fn abandon(&mut self, id: &EntryId, lease: &LeaseId) {
        if self.leases.get(id).is_some_and(|held| held.id == *lease) {
            self.leases.remove(id);
        }
    }

    /// Removes an entry, and returns it; `None` if there is none.
    pub(crate) fn remove(&mut self, id: &EntryId) -> Option<Entry> {
        self.entries.remove(id)
    }

    /// Removes the entry in a directory, and returns it; `None` if the directory is no longer that of the entry.
    pub(crate) fn remove_from(&mut self, id: &EntryId, directory: &str) -> Option<Entry> {
        self.entries.get(id).filter(|entry| entry.directory == directory)?;
        self.entries.remove(id)
    }

    /// Adds an entry that an earlier process stored. The newer one of two entries with the same identity stays; returns
    /// the other one.
    pub(crate) fn add(&mut self, id: EntryId, entry: Entry) -> Option<Entry> {
        match self.entries.get_mut(&id) {
            Some(present) if present.last_use >= entry.last_use => Some(entry),
            Some(present) => Some(std::mem::replace(present, entry)),
            None => {
                self.entries.insert(id, entry);
                None
            }
        }
    }

    /// Removes the entries by which the cache exceeds its limit, for instance because the limit is lower than that of an
    /// earlier process.
    pub(crate) fn shrink(&mut self) -> Vec<(EntryId, Entry)> {
        let mut eviction = self.eviction();
        let mut removed = Vec::new();
        while let Some(victim) = eviction.next() {
            eviction.removed(&victim);
            removed.extend(self.entries.remove_entry(&victim.id));
        }
        removed
    }

    /// Returns true if a namespace may have one more lease.
    fn has_lease_for(&self, namespace: &Namespace) -> bool {
        let own = self.leases.keys().filter(|other| other.namespace == *namespace).count();
        let limit = if own < FEW_LEASES { MAX_LEASES } else { MAX_LEASES - KEPT_LEASES };
        own < LEASES_PER_NAMESPACE && self.leases.len() < limit
    }

    /// Chooses the entries that leave room for `stored` more bytes of a namespace.
    fn victims(&self, namespace: &Namespace, stored: u64, now: Now) -> Result<Vec<EntryId>, CacheError> {
        let unused_since = now.wall.checked_sub(PROTECTED).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut eviction = self.eviction().for_model_of(namespace.as_str(), stored, unused_since);
        let mut victims = Vec::new();
        while let Some(victim) = eviction.next() {
            eviction.removed(&victim);
            victims.push(victim.id);
        }
        if eviction.is_over() { Err(CacheError::Full) } else { Ok(victims) }
    }

    /// Returns the eviction of entries without readers. Uploads and entries that are read count, and stay.
    fn eviction(&self) -> Eviction<EntryId> {
        let candidate = |(id, entry): (&EntryId, &Entry)| Candidate {
            id: id.clone(),
            owner: id.namespace.as_str().to_owned(),
            bytes: entry.stored,
            last_use: entry.last_use,
        };
        let (free, read): (Vec<_>, Vec<_>) = self.entries.iter().partition(|(_, entry)| entry.readers == 0);
        let eviction = Eviction::new(free.into_iter().map(candidate), self.limits.bytes);
        let read = read.into_iter().map(|(id, entry)| (id, entry.stored));
        let uploads = self.leases.iter().map(|(id, lease)| (id, lease.stored()));
        read.chain(uploads).fold(eviction, |eviction, (id, bytes)| eviction.with(id.namespace.as_str(), bytes))
    }

    fn held(&mut self, id: &EntryId, lease: &LeaseId, now: Now) -> Result<&mut Lease, CacheError> {
        let held = self.leases.get_mut(id).filter(|held| held.id == *lease && !held.is_expired(now.timer));
        held.ok_or(CacheError::NoLease)
    }
}

impl Lease {
    fn is_expired(&self, now: Instant) -> bool {
        self.expiry().is_some_and(|until| until <= now)
    }

    /// Returns the time at which the lease expires; `None` while files are stored.
    fn expiry(&self) -> Option<Instant> {
        match self.state {
            LeaseState::Fetching(until) => Some(until),
            LeaseState::Storing(_) => None,
        }
    }

    /// Returns the bytes on disk that an upload needs.
    fn stored(&self) -> u64 {
        match self.state {
            LeaseState::Fetching(_) => 0,
            LeaseState::Storing(stored) => stored,
        }
    }
}
