//! The record of refusals and of control calls: a line in the log and a count for each.
//!
//! Lines are bounded for each client by itself, so that no client can fill the log or hide the lines of another one.
//! Requests without a valid key count as one client, `anonymous`, whatever name they claim.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use weir_access::Grant;
use weir_cluster::ServiceName;

use crate::clock::now;
use crate::error::{Refusal, Refused};

/// Maximum number of clients with a count and a limit of their own. All further clients share those of [`OTHER`].
const MAX_CLIENTS: usize = 1024;

/// Number of lines that one client may cause at once.
const BURST: f64 = 10.0;

/// Number of lines per second that one client may cause in the long run.
const RATE: f64 = 1.0;

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
    refused: HashMap<Arc<str>, BTreeMap<Refusal, u64>>,
    lines: HashMap<Arc<str>, Bucket>,
    left_out: u64,
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
        let Some(left_out) = self.books.lock().refuse(name, *refusal, now()) else {
            return;
        };
        let (reason, service) = (refusal.label(), service.as_deref().unwrap_or_default());
        tracing::warn!(client = name, operation, service, reason, because, left_out, "a request was refused");
    }

    /// Logs a control call that a rule allows to this client; `None` stands for an anonymous client.
    pub(super) fn controlled(&self, client: Option<&str>, service: &ServiceName, grant: Grant) {
        let name = client.unwrap_or(ANONYMOUS);
        let Some(left_out) = self.books.lock().line(name, now()) else {
            return;
        };
        tracing::info!(client = name, %service, rule = %grant, left_out, "a control call was allowed");
    }

    /// Returns the number of refusals by client and reason, sorted, and the number of lines that were left out.
    pub(crate) fn counts(&self) -> (Vec<(Arc<str>, Refusal, u64)>, u64) {
        let books = self.books.lock();
        let of_client = |(client, counts): (&Arc<str>, &BTreeMap<Refusal, u64>)| {
            let client = Arc::clone(client);
            counts.clone().into_iter().map(move |(refusal, count)| (Arc::clone(&client), refusal, count))
        };
        let mut counts: Vec<_> = books.refused.iter().flat_map(of_client).collect();
        // A series that exists from the beginning shows its first increase.
        for refusal in [Refusal::NoCredential, Refusal::InvalidCredential] {
            if !counts.iter().any(|(client, counted, _)| **client == *ANONYMOUS && *counted == refusal) {
                counts.push((ANONYMOUS.into(), refusal, 0));
            }
        }
        counts.sort();
        (counts, books.left_out)
    }
}

impl Books {
    fn refuse(&mut self, name: &str, refusal: Refusal, now: Instant) -> Option<u64> {
        let has_place = self.refused.len() < MAX_CLIENTS || self.refused.contains_key(name);
        let counted = if has_place { name } else { OTHER };
        match self.refused.get_mut(counted) {
            Some(counts) => *counts.entry(refusal).or_default() += 1,
            None => drop(self.refused.insert(counted.into(), BTreeMap::from([(refusal, 1)]))),
        }
        self.line(name, now)
    }

    /// Returns the number of this client's lines that were left out since its last line; `None` if this line is left
    /// out too.
    fn line(&mut self, name: &str, now: Instant) -> Option<u64> {
        if !self.lines.contains_key(name) && self.lines.len() >= MAX_CLIENTS {
            self.lines.retain(|_, bucket| bucket.refill(now) < BURST);
        }
        let is_other = !self.lines.contains_key(name) && self.lines.len() >= MAX_CLIENTS;
        let name = if is_other { OTHER } else { name };
        let full = || Bucket { left: BURST, at: now, left_out: 0 };
        let bucket = self.lines.entry(name.into()).or_insert_with(full);
        if bucket.refill(now) < 1.0 {
            bucket.left_out += 1;
            self.left_out += 1;
            return None;
        }
        bucket.left -= 1.0;
        Some(std::mem::take(&mut bucket.left_out))
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_that_floods_neither_fills_the_log_nor_silences_others() {
        let (mut books, start) = (Books::default(), now());
        let written = (0..1000).filter(|_| books.refuse("a", Refusal::Forbidden, start).is_some());
        assert_eq!(written.count(), 10);
        assert_eq!(books.refuse("b", Refusal::Forbidden, start), Some(0));
        assert_eq!(books.refuse("a", Refusal::Forbidden, start + Duration::from_secs(1)), Some(990));
        assert_eq!(books.left_out, 990);
        assert_eq!(books.refused["a"][&Refusal::Forbidden], 1001);
    }

    #[test]
    fn any_number_of_clients_takes_bounded_memory() {
        let (mut books, start) = (Books::default(), now());
        for number in 0..5 * MAX_CLIENTS {
            books.refuse(&number.to_string(), Refusal::NoCredential, start);
        }
        assert!(books.lines.len() <= MAX_CLIENTS + 1 && books.refused.len() <= MAX_CLIENTS + 1);
        let other = books.refused[OTHER][&Refusal::NoCredential];
        assert_eq!(other, 4 * MAX_CLIENTS as u64);
        // Clients that have caused no line for a while are forgotten, so that others get a limit of their own.
        assert_eq!(books.line("new", start + Duration::from_secs(60)), Some(0));
        assert!(books.lines.len() <= 2);
    }
}
