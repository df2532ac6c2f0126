//! Leases: leader election among several processes.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ClusterError;

/// Named leases: at most one process holds each lease.
#[async_trait]
pub trait Lease: Send + Sync {
    /// Waits until this process holds the lease. Dropping the future gives up the process's position in the queue.
    ///
    /// # Errors
    /// [`ClusterError::Unavailable`] when the cluster does not respond.
    async fn acquire(&self, name: &str) -> Result<HeldLease, ClusterError>;
}

/// A lease, held until this value is dropped.
pub struct HeldLease {
    lost: CancellationToken,
    release: Box<dyn Send + Sync>,
}

impl HeldLease {
    /// Creates a held lease. The implementation cancels `lost` when the lease is lost or its release is complete;
    /// dropping `release` starts the release.
    #[must_use]
    pub fn new(lost: CancellationToken, release: impl Send + Sync + 'static) -> Self {
        Self { lost, release: Box::new(release) }
    }

    /// Waits until another process may hold the lease: this holder must stop acting at once.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Releases the lease, and waits at most `limit` until another process can acquire it.
    pub async fn release(self, limit: Duration) {
        drop(self.release);
        // After the limit a waiting process still gets the lease, at the latest when it expires.
        let _ = tokio::time::timeout(limit, self.lost.cancelled()).await;
    }

    /// Returns true once another process may hold the lease.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }
}

impl fmt::Debug for HeldLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("HeldLease");
        text.field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}
