//! The record of refusals and of control calls: a line in the log for each, and a count of refusals.
//!
//! Lines are bounded for each client by itself, so that no client can fill the log or hide the lines of another one. Lines
//! about control calls have a bound of their own, so that no client can hide its control calls behind its own refusals.
//! Requests without a valid key count as one client, `(anonymous)`, whatever name they claim.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_access::Grant;
use weir_cluster::ServiceName;

use crate::clock::now;
use crate::error::{ClientLimit, Refusal, Refused};

/// Maximum number of clients with a count and a bound of their own. All further clients share those of [`OTHER`].
const MAX_CLIENTS: usize = 1024;

/// Number of lines that one client may cause at once.
const BURST: f64 = 10.0;

/// Number of lines per second that one client may cause in the long run.
const RATE: f64 = 1.0;

/// Time between two searches for clients that have caused no line for a while. A search visits all of them.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum length in bytes of the path of a control call in the log.
const MAX_PATH: usize = 256;

/// Reason of a refusal because of a limit, for logs and metric labels.
const OVER_LIMIT: &str = "over_limit";

/// Name under which requests without a valid key are counted. No client can have it, because of the bracket.
const ANONYMOUS: &str = "(anonymous)";

/// Name under which clients beyond [`MAX_CLIENTS`] are counted.
const OTHER: &str = "(other)";

/// The record of refusals and of control calls.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    /// Number of refusals of each client, by their reasons.
    refused: HashMap<Arc<str>, BTreeMap<&'static str, u64>>,
    refusals: Lines,
    controls: Lines,
}

/// Bound of the lines about one kind of event.
#[derive(Debug, Default)]
struct Lines {
    buckets: HashMap<Arc<str>, Bucket>,
    left_out: u64,
    searched: Option<Instant>,
}

/// Token bucket that limits the lines of one client.
#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
    left_out: u64,
}

impl Audit {
    /// Logs and counts a refusal.
    pub(crate) fn refused(&self, refused: &Refused) {
        let Refused { refusal, client, service, operation, because } = refused;
        let name = client.as_deref().unwrap_or(ANONYMOUS);
        let Some(left_out) = self.books.lock().refuse(name, refusal.label(), now()) else {
            return;
        };
        let (reason, service) = (refusal.label(), service.as_deref().unwrap_or_default());
        tracing::warn!(client = name, operation, service, reason, because, left_out, "a request was refused");
    }

    /// Logs and counts a refusal because of a limit of this client; `None` stands for an anonymous client.
    pub(super) fn limited(&self, client: Option<&str>, limit: ClientLimit) {
        let name = client.unwrap_or(ANONYMOUS);
        let Some(left_out) = self.books.lock().refuse(name, OVER_LIMIT, now()) else {
            return;
        };
        tracing::warn!(
            client = name,
            reason = OVER_LIMIT,
            because = limit.sentence(),
            left_out,
            "a request was refused"
        );
    }

    /// Logs a control call that a rule allows to this client; `None` stands for an anonymous client. `path` is the
    /// call's path at the service.
    pub(super) fn controlled(&self, client: Option<&str>, service: &ServiceName, path: &str, grant: Grant) {
        let name = client.unwrap_or(ANONYMOUS);
        let Some(left_out) = self.books.lock().controls.next(name, now()) else {
            return;
        };
        let call = &path[..path.floor_char_boundary(MAX_PATH)];
        tracing::info!(client = name, %service, call, rule = %grant, left_out, "a control call was allowed");
    }

    /// Returns the number of refusals by client and reason, sorted, and the number of lines that were left out.
    pub(crate) fn counts(&self) -> (Vec<(Arc<str>, &'static str, u64)>, u64) {
        let books = self.books.lock();
        let of_client = |(client, counts): (&Arc<str>, &BTreeMap<&'static str, u64>)| {
            let client = Arc::clone(client);
            counts.clone().into_iter().map(move |(reason, count)| (Arc::clone(&client), reason, count))
        };
        let mut counts: Vec<_> = books.refused.iter().flat_map(of_client).collect();
        // A series that exists from the beginning shows its first increase.
        for reason in [Refusal::NoCredential, Refusal::InvalidCredential].map(Refusal::label) {
            if !counts.iter().any(|(client, counted, _)| **client == *ANONYMOUS && *counted == reason) {
                counts.push((ANONYMOUS.into(), reason, 0));
            }
        }
        counts.sort();
        (counts, books.refusals.left_out + books.controls.left_out)
    }
}

impl Books {
    /// Counts a refusal. The result is that of [`Lines::next`].
    fn refuse(&mut self, name: &str, reason: &'static str, now: Instant) -> Option<u64> {
        let has_place = self.refused.len() < MAX_CLIENTS || self.refused.contains_key(name);
        let counted = if has_place { name } else { OTHER };
        match self.refused.get_mut(counted) {
            Some(counts) => *counts.entry(reason).or_default() += 1,
            None => drop(self.refused.insert(counted.into(), BTreeMap::from([(reason, 1)]))),
        }
        self.refusals.next(name, now)
    }
}

impl Lines {
    /// Returns the number of this client's lines that were left out since its last line; `None` if this line is left
    /// out too.
    fn next(&mut self, name: &str, now: Instant) -> Option<u64> {
        if !self.has_place(name) {
            self.make_room(now);
        }
        let name = if self.has_place(name) { name } else { OTHER };
        let bucket = match self.buckets.get_mut(name) {
            Some(bucket) => bucket,
            None => self.buckets.entry(name.into()).or_insert(Bucket { left: BURST, at: now, left_out: 0 }),
        };
        if bucket.refill(now) < 1.0 {
            bucket.left_out += 1;
            self.left_out += 1;
            return None;
        }
        bucket.left -= 1.0;
        Some(std::mem::take(&mut bucket.left_out))
    }

    fn has_place(&self, name: &str) -> bool {
        self.buckets.len() < MAX_CLIENTS || self.buckets.contains_key(name)
    }

    /// Forgets the clients that have caused no line for a while, unless that was tried just before.
    fn make_room(&mut self, now: Instant) {
        let is_due = |searched| now.saturating_duration_since(searched) >= SEARCH_INTERVAL;
        if self.searched.is_none_or(is_due) {
            self.searched = Some(now);
            self.buckets.retain(|_, bucket| bucket.refill(now) < BURST);
        }
    }
}

impl Bucket {
    fn refill(&mut self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * RATE).min(BURST);
        self.at = now;
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_floods_neither_fills_the_log_nor_silences_others() {
        let (mut books, start) = (Books::default(), now());
        let mut refuse = |name, now| books.refuse(name, "forbidden", now);
        let written = (0..1000).filter(|_| refuse("a", start).is_some());
        assert_eq!(written.count(), 10);
        assert_eq!(refuse("b", start), Some(0));
        assert_eq!(refuse("a", start + Duration::from_secs(1)), Some(990));
        assert_eq!(books.refusals.left_out, 990);
        assert_eq!(books.refused["a"]["forbidden"], 1001);
    }

    #[test]
    fn a_client_cannot_hide_its_control_calls_behind_refusals() {
        let (mut books, start) = (Books::default(), now());
        let written = (0..1000).filter(|_| books.refuse("a", "forbidden", start).is_some());
        assert_eq!(written.count(), 10);
        assert_eq!(books.controls.next("a", start), Some(0));
        let written = (0..1000).filter(|_| books.controls.next("a", start).is_some());
        assert_eq!(written.count(), 9);
        assert_eq!(books.controls.left_out, 991);
    }

    #[test]
    fn any_number_of_clients_takes_bounded_memory() {
        let (mut books, start) = (Books::default(), now());
        for number in 0..5 * MAX_CLIENTS {
            books.refuse(&number.to_string(), "forbidden", start);
        }
        assert!(books.refusals.buckets.len() <= MAX_CLIENTS + 1 && books.refused.len() <= MAX_CLIENTS + 1);
        let other = books.refused[OTHER]["forbidden"];
        assert_eq!(other, 4 * MAX_CLIENTS as u64);
        // Clients that have caused no line for a while are forgotten, so that others get a bound of their own.
        assert_eq!(books.refusals.next("new", start + Duration::from_secs(60)), Some(0));
        assert!(books.refusals.buckets.len() <= 2);
    }
}
