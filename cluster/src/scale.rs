//! The autoscaler's side of a cluster.

use async_trait::async_trait;

use crate::{ClusterError, RevisionName};

/// Sets the number of replicas. Used by the autoscaler, the only component that changes the number once a revision
/// exists.
#[async_trait]
pub trait Scale: Send + Sync {
    /// Requests this many replicas. Returns once the number is recorded, not once the replicas are ready.
    ///
    /// # Errors
    /// [`ClusterError::UnknownRevision`] when there is no such revision, [`ClusterError::Unavailable`] when the cluster
    /// does not respond.
    async fn scale(&self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError>;
}
