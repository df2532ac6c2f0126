//! Being the only one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::ClusterError;

/// Leases, by name: of all processes that ask for one, one holds it.
#[async_trait]
pub trait Lease: Send + Sync {
    /// Waits until this process holds the lease. Dropping the future gives up the place in line.
    ///
    /// # Errors
    /// [`ClusterError::Unavailable`].
    async fn acquire(&self, name: &str) -> Result<Held, ClusterError>;
}

/// A lease that is held until this is dropped.
pub struct Held {
    lost: CancellationToken,
    _release: Box<dyn Send + Sync>,
}

impl Held {
    /// A lease whose loss `lost` tells, and that ends by dropping `release`.
    #[must_use]
    pub fn new(lost: CancellationToken, release: impl Send + Sync + 'static) -> Self {
        Self {
            lost,
            _release: Box::new(release),
        }
    }

    /// Waits until somebody else may hold it: whoever acts under the lease stops at once.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Whether it was lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Held");
        text.field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}

/// Leases among the tasks of one process. Clones share them; they are never lost, and go to whoever
/// asked first.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    by_name: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

impl Leases {
    /// Nobody holds any.
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
    async fn acquire(&self, name: &str) -> Result<Held, ClusterError> {
        // The semaphores are never closed, so there always is a permit in the end.
        let permit = self.permit(name).await;
        Ok(Held::new(CancellationToken::new(), permit))
    }
}
