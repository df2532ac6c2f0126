//! The state of a cluster, as others read it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::Snapshot;

/// Snapshots of a cluster; read by gateway, controller and autoscaler.
pub trait Directory: Send + Sync {
    /// The current state, and every later one. The latest is there at once; a reader that is slow skips states.
    fn watch(&self) -> watch::Receiver<Arc<Snapshot>>;
}
