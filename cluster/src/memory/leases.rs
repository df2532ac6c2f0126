//! Leases within one process, for platforms that consist of a single process.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{ClusterError, HeldLease, Lease};

/// Leases among the tasks of one process. Clones share them. Leases are never lost, and tasks acquire them in the order
/// of their requests.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    by_name: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

impl Leases {
    /// Creates a set of leases, none of them held.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    async fn permit(&self, name: &str) -> Option<OwnedSemaphorePermit> {
        let lease = {
            let mut by_name = self.by_name.lock();
            let lease = by_name.entry(name.to_owned());
            lease.or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
        };
        lease.acquire_owned().await.ok()
    }
}

#[async_trait]
impl Lease for Leases {
    async fn acquire(&self, name: &str) -> Result<HeldLease, ClusterError> {
        // The semaphores are never closed, so a permit is always granted in the end.
        let permit = self.permit(name).await;
        let ended = CancellationToken::new();
        let release = (permit, ended.clone().drop_guard());
        Ok(HeldLease::new(ended, release))
    }
}
