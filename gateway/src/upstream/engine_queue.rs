//! The queue inside a replica that generates text, as the replica's metrics report it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// Number of failures in a row, such as pages without the gauges, after which a replica's metrics are no longer read.
const MAX_FAILURES: u8 = 3;

/// Number of requests that wait inside one replica.
#[derive(Debug, Default)]
pub(crate) struct EngineQueue {
    is_reading: AtomicBool,
    failures: AtomicU8,
    waiting: AtomicU32,
    is_known: AtomicBool,
}

impl EngineQueue {
    /// Returns the number of requests waiting inside the replica that count for this gateway: an even share among
    /// `gateways` gateways, and at most the `requests` that this gateway has there.
    pub(crate) fn share(&self, requests: u32, gateways: u32) -> u32 {
        self.waiting.load(Ordering::Relaxed).div_ceil(gateways.max(1)).min(requests)
    }

    /// Returns true if the last reading of the replica's metrics contained the number of waiting requests.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Marks the metrics as being read; false if they are being read already, or if the replica has none.
    pub(crate) fn begins_reading(&self) -> bool {
        self.failures.load(Ordering::Relaxed) < MAX_FAILURES && !self.is_reading.swap(true, Ordering::Relaxed)
    }

    /// Records the number that was read; `None` if the metrics could not be read or lack it.
    pub(crate) fn has_read(&self, waiting: Option<u32>) {
        match waiting {
            Some(_) => self.failures.store(0, Ordering::Relaxed),
            None => drop(self.failures.fetch_add(1, Ordering::Relaxed)),
        }
        self.is_known.store(waiting.is_some(), Ordering::Relaxed);
        self.waiting.store(waiting.unwrap_or(0), Ordering::Relaxed);
        self.is_reading.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_share_a_queue_and_a_replica_without_metrics_is_not_read_again() {
        let queue = EngineQueue::default();
        assert!(queue.begins_reading() && !queue.begins_reading());
        queue.has_read(Some(9));
        assert_eq!((queue.share(100, 2), queue.share(3, 2)), (5, 3));
        assert!(queue.is_known());
        for _ in 0..MAX_FAILURES {
            assert!(queue.begins_reading());
            queue.has_read(None);
        }
        assert!(!queue.begins_reading());
        assert_eq!(queue.share(100, 1), 0);
        assert!(!queue.is_known());
    }
}
