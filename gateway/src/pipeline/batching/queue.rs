//! Queue of the requests that wait to share a batch: a value without clock, randomness or IO.
//!
//! ```text
//!   admit ────► ticket │ refused, because the queue is full
//!   next ─────► entries of a batch that is due │ none is due
//!   remove ───► the entry leaves;   complete ─► a batch is no longer in flight
//! ```
//!
//! While a replica is idle, no request waits. Otherwise a batch is due once it is full, or once its first entry has
//! waited for `max_delay`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::queue::QueueLimit;

/// Limits of batches and of the batch queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchLimits {
    /// Maximum number of rows in a batch; a request with more is sent alone.
    pub(crate) max_rows: usize,
    /// Longest time that a request waits for others to join its batch.
    pub(crate) max_delay: Duration,
    /// Number of batches in flight at which every replica is busy.
    pub(crate) max_in_flight: usize,
    /// Most requests and bytes in the queue.
    pub(crate) queue: QueueLimit,
}

/// A request that enters the batch queue.
#[derive(Debug)]
pub(crate) struct NewEntry<K, T> {
    /// Key that is equal in all requests that may share a batch.
    pub(crate) key: K,
    /// Rows of the request, at least one.
    pub(crate) rows: usize,
    /// Bytes of the request's body.
    pub(crate) bytes: usize,
    pub(crate) item: T,
}

/// Requests that wait for a batch. Only requests with equal keys share one.
#[derive(Debug)]
pub(crate) struct BatchQueue<K, T> {
    groups: HashMap<K, Group<T>>,
    /// Keys of all entries, in order of arrival.
    order: BTreeMap<u64, K>,
    /// Keys of groups whose rows filled a batch when an entry joined.
    full: VecDeque<K>,
    /// Bytes of all entries.
    bytes: usize,
    tickets: u64,
    in_flight: usize,
}

#[derive(Debug)]
struct Group<T> {
    entries: VecDeque<WaitingEntry<T>>,
    rows: usize,
}

#[derive(Debug)]
struct WaitingEntry<T> {
    ticket: u64,
    rows: usize,
    bytes: usize,
    since: Instant,
    item: T,
}

impl<K, T> Default for BatchQueue<K, T> {
    fn default() -> Self {
        let (groups, order, full) = (HashMap::new(), BTreeMap::new(), VecDeque::new());
        Self { groups, order, full, bytes: 0, tickets: 0, in_flight: 0 }
    }
}

impl<K: Clone + Eq + Hash, T> BatchQueue<K, T> {
    /// Adds an entry and returns its ticket for [`Self::remove`].
    ///
    /// # Errors
    /// Returns the item itself if the queue is full.
    pub(crate) fn admit(&mut self, entry: NewEntry<K, T>, now: Instant, limits: &BatchLimits) -> Result<u64, T> {
        let bytes = self.bytes.saturating_add(entry.bytes);
        let is_full = self.order.len() >= limits.queue.requests || bytes > limits.queue.bytes;
        // While a replica is idle, the entry leaves the queue at once, so the queue's limit does not apply.
        if is_full && self.in_flight >= limits.max_in_flight {
            return Err(entry.item);
        }
        let NewEntry { key, rows, bytes: entry_bytes, item } = entry;
        self.bytes = bytes;
        self.tickets += 1;
        let ticket = self.tickets;
        self.order.insert(ticket, key.clone());
        let group = self.groups.entry(key.clone()).or_insert_with(Group::new);
        group.rows += rows;
        group.entries.push_back(WaitingEntry { ticket, rows, bytes: entry_bytes, since: now, item });
        if group.rows >= limits.max_rows {
            self.full.push_back(key);
        }
        Ok(ticket)
    }

    /// Takes the items of a batch that is due, in order of arrival. The batch counts as in flight until
    /// [`Self::complete`].
    pub(crate) fn next(&mut self, limits: &BatchLimits, now: Instant) -> Option<Vec<T>> {
        let key = self.next_full(limits).or_else(|| self.next_oldest(limits, now))?;
        let batch = self.take(&key, limits);
        self.in_flight += 1;
        Some(batch)
    }

    /// Removes an entry. Has no effect if the entry is already in a batch.
    pub(crate) fn remove(&mut self, ticket: u64) {
        let Some(key) = self.order.remove(&ticket) else {
            return;
        };
        let Some(group) = self.groups.get_mut(&key) else {
            return;
        };
        let at = group.entries.iter().position(|one| one.ticket == ticket);
        if let Some(gone) = at.and_then(|at| group.entries.remove(at)) {
            group.rows -= gone.rows;
            self.bytes -= gone.bytes;
        }
        if group.entries.is_empty() {
            self.groups.remove(&key);
        }
    }

    /// Records that a batch is no longer in flight.
    pub(crate) fn complete(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Returns the number of entries in the queue, and their bytes.
    pub(crate) fn content(&self) -> QueueLimit {
        QueueLimit { requests: self.order.len(), bytes: self.bytes }
    }

    fn next_full(&mut self, limits: &BatchLimits) -> Option<K> {
        while let Some(key) = self.full.pop_front() {
            let rows = self.groups.get(&key).map_or(0, |group| group.rows);
            if rows >= limits.max_rows {
                // The group may have rows for a second batch, so its key stays in front.
                self.full.push_front(key.clone());
                return Some(key);
            }
        }
        None
    }

    /// Returns the key of the oldest entry, if the entry's wait is over or a replica is idle.
    fn next_oldest(&self, limits: &BatchLimits, now: Instant) -> Option<K> {
        let (_, key) = self.order.first_key_value()?;
        let oldest = self.groups.get(key)?.entries.front()?;
        let is_due = oldest.since + limits.max_delay <= now;
        (is_due || self.in_flight < limits.max_in_flight).then(|| key.clone())
    }

    /// Takes as many entries of a group as fit into one batch, at least one.
    fn take(&mut self, key: &K, limits: &BatchLimits) -> Vec<T> {
        let Some(group) = self.groups.get_mut(key) else {
            return Vec::new();
        };
        let (mut batch, mut rows) = (Vec::new(), 0);
        while let Some(first) = group.entries.front() {
            if !batch.is_empty() && rows + first.rows > limits.max_rows {
                break;
            }
            let Some(taken) = group.entries.pop_front() else {
                break;
            };
            rows += taken.rows;
            group.rows -= taken.rows;
            self.bytes -= taken.bytes;
            self.order.remove(&taken.ticket);
            batch.push(taken.item);
        }
        if group.entries.is_empty() {
            self.groups.remove(key);
        }
        batch
    }
}

impl<T> Group<T> {
    fn new() -> Self {
        Self { entries: VecDeque::new(), rows: 0 }
    }
}
