//! How many requests all versions at work take at once.
//!
//! Who sends to the server counts the requests it has there, whatever models they ask for. So each answer
//! tells the same number, of the server, whichever model gave it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The sum. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity(Arc<AtomicUsize>);

/// What one version adds, for as long as it is there.
#[derive(Debug)]
pub(super) struct Share {
    whole: Capacity,
    requests: usize,
}

impl Capacity {
    /// Requests at once.
    pub(super) fn requests(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// One more version, which takes so many.
    pub(super) fn share(&self, requests: usize) -> Share {
        self.0.fetch_add(requests, Ordering::Relaxed);
        let whole = self.clone();
        Share { whole, requests }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.whole.0.fetch_sub(self.requests, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sum_of_those_that_are_there() {
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
