//! Read access to the state of a cluster.

use std::sync::Arc;

use tokio::sync::watch;

use crate::Snapshot;

/// Snapshots of a cluster; read by gateway, controller and autoscaler.
pub trait Directory: Send + Sync {
    /// Returns a receiver of the current state and every later one. The latest state is available at once; a slow
    /// reader skips states.
    fn watch(&self) -> watch::Receiver<Arc<Snapshot>>;
}
