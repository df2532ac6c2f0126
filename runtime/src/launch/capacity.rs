//! Capacity of the server: the number of requests that all loaded versions run at once.
//!
//! A client counts its requests to the server, whatever models they ask for. So each answer carries the
//! server's capacity, whichever model gave it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The capacity of all versions together. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity(Arc<AtomicUsize>);

/// The part of one version, taken off again when dropped.
#[derive(Debug)]
pub(super) struct CapacityShare {
    capacity: Capacity,
    requests: usize,
}

impl Capacity {
    pub(super) fn requests(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds a version that runs `requests` at once.
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
