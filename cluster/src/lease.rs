//! Leases: of several processes, one acts.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ClusterError;

/// Leases, by name: of all processes that ask for one, one holds it.
#[async_trait]
pub trait Lease: Send + Sync {
    /// Waits until this process holds the lease. Dropping the future gives up the place in line.
    ///
    /// # Errors
    /// [`ClusterError::Unavailable`].
    async fn acquire(&self, name: &str) -> Result<HeldLease, ClusterError>;
}

/// A lease that is held until this is dropped.
pub struct HeldLease {
    lost: CancellationToken,
    release: Box<dyn Send + Sync>,
}

impl HeldLease {
    /// A lease whose loss or end cancels `lost`, and that ends by dropping `release`.
    #[must_use]
    pub fn new(lost: CancellationToken, release: impl Send + Sync + 'static) -> Self {
        Self { lost, release: Box::new(release) }
    }

    /// Waits until the lease may be held elsewhere: its holder must stop at once.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Gives it up, and waits until others can have it, at most for this time.
    pub async fn release(self, limit: Duration) {
        drop(self.release);
        // Whoever waits has it once it has run out, if not before.
        let _ = tokio::time::timeout(limit, self.lost.cancelled()).await;
    }

    /// True once another may hold the lease.
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
