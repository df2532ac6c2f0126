//! Capacity of the server: the number of requests that all loaded versions together run at once.
//!
//! Clients count their requests per server, not per model. So every response carries the capacity of the whole server,
//! whichever model answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The capacity of all versions together. Clones share the same count.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity(Arc<AtomicUsize>);

/// The share of one version, subtracted again when it is dropped.
#[derive(Debug)]
pub(super) struct CapacityShare {
    capacity: Capacity,
    requests: usize,
}

impl Capacity {
    pub(super) fn requests(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds a version that runs `requests` requests at once.
    pub(super) fn share(&self, requests: usize) -> CapacityShare {
        self.0.fetch_add(requests, Ordering::Relaxed);
        let capacity = self.clone();
        CapacityShare { capacity, requests }
    }
}

impl Drop for CapacityShare {
    fn drop(&mut self) {
        self.capacity.0.fetch_sub(self.requests, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_the_sum_of_living_shares() {
        let capacity = Capacity::default();
        assert_eq!(capacity.requests(), 0);
        let (small, large) = (capacity.share(1), capacity.share(64));
        assert_eq!(capacity.requests(), 65);
        drop(small);
        assert_eq!(capacity.requests(), 64);
        drop(large);
        assert_eq!(capacity.requests(), 0);
    }
}
