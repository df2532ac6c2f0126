//! The autoscaler's side of a cluster.

use async_trait::async_trait;

use crate::{ClusterError, RevisionName};

/// Sets the number of replicas; used by the autoscaler, which alone changes it once a revision exists.
#[async_trait]
pub trait Scale: Send + Sync {
    /// Asks for this many replicas. Returns once that is noted, not once they are ready.
    ///
    /// # Errors
    /// [`ClusterError::UnknownRevision`], or [`ClusterError::Unavailable`].
    async fn scale(&self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError>;
}
