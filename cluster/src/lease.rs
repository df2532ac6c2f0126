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

/// Longest wait for the release of a lease. If it fails, the next leader waits until the lease expires.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// Reason why a leader stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEnd {
    /// The process stops and gives up the lease.
    Stopped,
    /// Another process may hold the lease now.
    Lost,
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

    /// Runs a leader until `stop` is cancelled or the lease is lost. A leader that ends by itself is not started again:
    /// the values that it watches have closed, which means that the process ends too.
    pub async fn lead(&self, leader: impl Future<Output = ()>, stop: &CancellationToken) -> LeaseEnd {
        tokio::select! {
            biased;
            () = stop.cancelled() => LeaseEnd::Stopped,
            () = self.lost() => LeaseEnd::Lost,
            () = leader => {
                stop.cancelled().await;
                LeaseEnd::Stopped
            }
        }
    }

    /// Releases the lease, and waits a moment until another process can acquire it.
    pub async fn release(self) {
        drop(self.release);
        // After the limit a waiting process still gets the lease, at the latest when it expires.
        let _ = tokio::time::timeout(RELEASE_LIMIT, self.lost.cancelled()).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_leader_runs_until_the_stop_or_the_loss_of_the_lease() {
        let (lost, stop) = (CancellationToken::new(), CancellationToken::new());
        let held = HeldLease::new(lost.clone(), ());
        let ended = async { stop.cancel() };
        assert_eq!(held.lead(ended, &stop).await, LeaseEnd::Stopped);
        let lose = async {
            lost.cancel();
            std::future::pending::<()>().await;
        };
        assert_eq!(held.lead(lose, &CancellationToken::new()).await, LeaseEnd::Lost);
    }
}
