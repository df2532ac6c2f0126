//! Leases of one process, for platforms of which there is only one.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{ClusterError, HeldLease, Lease};

/// Leases among the tasks of one process. Clones share them; they are never lost, and go to whoever
/// asked first.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    by_name: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

impl Leases {
    /// Leases that no task holds.
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
        // The semaphores are never closed, so there always is a permit in the end.
        let permit = self.permit(name).await;
        let ended = CancellationToken::new();
        let release = (permit, ended.clone().drop_guard());
        Ok(HeldLease::new(ended, release))
    }
}
