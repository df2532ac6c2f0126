//! Allows one load or unload per model at a time, in the order of the calls; different models do not wait for each
//! other.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// A fair lock per model name.
#[derive(Debug, Default)]
pub(super) struct LoadLocks {
    by_name: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl LoadLocks {
    /// Acquires the lock for changing a model's versions, after all earlier callers.
    ///
    /// # Cancellation
    /// Dropping the future gives up the place in the queue.
    pub(super) async fn acquire(&self, name: &str) -> OwnedMutexGuard<()> {
        let lock = self.lock_of(name);
        lock.lock_owned().await
    }

    fn lock_of(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut by_name = self.by_name.lock();
        if let Some(lock) = by_name.get(name).and_then(Weak::upgrade) {
            return lock;
        }
        // Names come from clients, so locks that are neither held nor awaited must not accumulate.
        by_name.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        by_name.insert(name.to_owned(), Arc::downgrade(&lock));
        lock
    }
}
