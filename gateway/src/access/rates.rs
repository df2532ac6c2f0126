//! Requests per time of each client.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_access::Rate;

/// Maximum number of clients whose buckets are not full. Beyond it, all buckets are filled, so that memory is bounded.
const MAX_CLIENTS: usize = 65_536;

/// Buckets of all clients: the time at which each is full. A bucket that is full is as good as none.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<Arc<str>, Instant>>);

impl Rates {
    /// Takes one request from the bucket of a client.
    ///
    /// # Errors
    /// The time after which a request would be accepted.
    pub(super) fn take(&self, client: &Arc<str>, rate: Rate, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.0.lock();
        let full_at = rate.take(buckets.get(client).copied(), now)?;
        if buckets.len() >= MAX_CLIENTS && !buckets.contains_key(client) {
            buckets.retain(|_, full_at| *full_at > now);
            if buckets.len() >= MAX_CLIENTS {
                buckets.clear();
            }
        }
        buckets.insert(Arc::clone(client), full_at);
        Ok(())
    }
}
