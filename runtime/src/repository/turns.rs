//! One load or unload of a model at a time, first come first served; different models do not wait
//! for each other.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Who works on which model.
#[derive(Debug, Default)]
pub(super) struct Turns {
    by_name: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

/// The right to change one model's versions. Dropping it gives the next in line theirs.
#[derive(Debug)]
pub(super) struct Turn {
    _held: OwnedMutexGuard<()>,
}

impl Turns {
    /// Waits for everyone who asked before.
    ///
    /// # Cancellation
    /// Dropping the future gives the place in line to the next.
    pub(super) async fn take(&self, name: &str) -> Turn {
        let line = self.line(name);
        Turn {
            _held: line.lock_owned().await,
        }
    }

    fn line(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut by_name = self.by_name.lock();
        if let Some(line) = by_name.get(name).and_then(Weak::upgrade) {
            return line;
        }
        // Names come from clients: what nobody waits for must not pile up.
        by_name.retain(|_, line| line.strong_count() > 0);
        let line = Arc::default();
        by_name.insert(name.to_owned(), Arc::downgrade(&line));
        line
    }
}
