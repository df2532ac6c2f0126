//! Reading what runs where.

use std::sync::Arc;

use tokio::sync::watch;

use crate::Snapshot;

/// What a gateway reads.
pub trait Directory: Send + Sync {
    /// The current state, and every later one. The latest is there at once; states that nobody looked
    /// at in time are skipped.
    fn watch(&self) -> watch::Receiver<Arc<Snapshot>>;
}
