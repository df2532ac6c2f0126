//! Who waits for others to share a batch with, as a value: no clock, no luck, no IO.
//!
//! ```text
//!   admit ──► a place │ refused, because too many wait
//!   next  ──► the members of one batch that has to go now │ none has to
//!   forget ─► a place becomes free;   landed ─► a batch was answered
//! ```
//!
//! Nobody waits while a replica has nothing to do. While all have, a batch goes as soon as it is full, or
//! as its first member has waited long enough.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// What bounds batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Rows of one batch at most; who brings more goes alone.
    pub(crate) rows: usize,
    /// The longest that anyone waits for others.
    pub(crate) wait: Duration,
    /// Batches under way with which nobody is idle.
    pub(crate) flights: usize,
    /// How many may wait.
    pub(crate) room: usize,
}

/// One who wants to share a batch.
#[derive(Debug)]
pub(crate) struct Entry<K, T> {
    /// What it has in common with those it may share with.
    pub(crate) key: K,
    /// What it brings, at least one.
    pub(crate) rows: usize,
    /// Itself.
    pub(crate) item: T,
}

/// Those who wait. Only members of the same `K` share a batch.
#[derive(Debug)]
pub(crate) struct Gatherer<K, T> {
    groups: HashMap<K, Group<T>>,
    /// All who wait, in the order in which they came.
    order: BTreeMap<u64, K>,
    /// Groups that had enough rows for a batch when somebody joined them.
    full: VecDeque<K>,
    tickets: u64,
    flying: usize,
}

#[derive(Debug)]
struct Group<T> {
    entries: VecDeque<Waiting<T>>,
    rows: usize,
}

#[derive(Debug)]
struct Waiting<T> {
    ticket: u64,
    rows: usize,
    since: Instant,
    item: T,
}

impl<K, T> Default for Gatherer<K, T> {
    fn default() -> Self {
        Self {
            groups: HashMap::new(),
            order: BTreeMap::new(),
            full: VecDeque::new(),
            tickets: 0,
            flying: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, T> Gatherer<K, T> {
    /// Takes a member in; the ticket is for [`Self::forget`].
    ///
    /// # Errors
    /// The member itself, where as many wait as may.
    pub(crate) fn admit(
        &mut self,
        entry: Entry<K, T>,
        now: Instant,
        bounds: &Bounds,
    ) -> Result<u64, T> {
        // With nobody under way it leaves at once.
        if self.order.len() >= bounds.room && self.flying >= bounds.flights {
            return Err(entry.item);
        }
        let Entry { key, rows, item } = entry;
        self.tickets += 1;
        let ticket = self.tickets;
        self.order.insert(ticket, key.clone());
        let group = self.groups.entry(key.clone()).or_insert_with(Group::new);
        group.rows += rows;
        group.entries.push_back(Waiting {
            ticket,
            rows,
            since: now,
            item,
        });
        if group.rows >= bounds.rows {
            self.full.push_back(key);
        }
        Ok(ticket)
    }

    /// The members of a batch that has to go now, in the order in which they came. It counts as under way
    /// until [`Self::landed`].
    pub(crate) fn next(&mut self, bounds: &Bounds, now: Instant) -> Option<Vec<T>> {
        let key = self.next_full(bounds);
        let key = key.or_else(|| self.next_oldest(bounds, now))?;
        let batch = self.take(&key, bounds);
        self.flying += 1;
        Some(batch)
    }

    /// Somebody does not wait any more. Nothing happens if it was in a batch already.
    pub(crate) fn forget(&mut self, ticket: u64) {
        let Some(key) = self.order.remove(&ticket) else {
            return;
        };
        let Some(group) = self.groups.get_mut(&key) else {
            return;
        };
        let at = group.entries.iter().position(|one| one.ticket == ticket);
        if let Some(gone) = at.and_then(|at| group.entries.remove(at)) {
            group.rows -= gone.rows;
        }
        if group.entries.is_empty() {
            self.groups.remove(&key);
        }
    }

    /// A batch is no longer under way.
    pub(crate) fn landed(&mut self) {
        self.flying = self.flying.saturating_sub(1);
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.order.len()
    }

    fn next_full(&mut self, bounds: &Bounds) -> Option<K> {
        while let Some(key) = self.full.pop_front() {
            let rows = self.groups.get(&key).map_or(0, |group| group.rows);
            if rows >= bounds.rows {
                // Perhaps it is enough for two.
                self.full.push_front(key.clone());
                return Some(key);
            }
        }
        None
    }

    /// The group of the one who waits longest, if it may not wait any more or need not.
    fn next_oldest(&self, bounds: &Bounds, now: Instant) -> Option<K> {
        let (_, key) = self.order.first_key_value()?;
        let oldest = self.groups.get(key)?.entries.front()?;
        let is_due = oldest.since + bounds.wait <= now;
        (is_due || self.flying < bounds.flights).then(|| key.clone())
    }

    /// As many of a group as fit one batch, at least one.
    fn take(&mut self, key: &K, bounds: &Bounds) -> Vec<T> {
        let Some(group) = self.groups.get_mut(key) else {
            return Vec::new();
        };
        let (mut batch, mut rows) = (Vec::new(), 0);
        while let Some(first) = group.entries.front() {
            if !batch.is_empty() && rows + first.rows > bounds.rows {
                break;
            }
            let Some(taken) = group.entries.pop_front() else {
                break;
            };
            rows += taken.rows;
            group.rows -= taken.rows;
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
        Self {
            entries: VecDeque::new(),
            rows: 0,
        }
    }
}
