//! One load or unload of a model at a time, first come first served; different models do not wait
//! for each other.

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
    /// Takes the right to change that model's versions, after every earlier caller.
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
        // Names come from clients: locks neither held nor awaited must not pile up.
        by_name.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        by_name.insert(name.to_owned(), Arc::downgrade(&lock));
        lock
    }
}
