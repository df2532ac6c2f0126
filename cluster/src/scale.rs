//! Changing how many replicas a revision has.

use async_trait::async_trait;

use crate::{ClusterError, RevisionName};

/// What an autoscaler does. Nobody else changes the number once a revision exists.
#[async_trait]
pub trait Scale: Send + Sync {
    /// Asks for this many replicas. Returns once that is noted, not once they are ready.
    ///
    /// # Errors
    /// [`ClusterError::UnknownRevision`], or [`ClusterError::Unavailable`].
    async fn scale(&self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError>;
}
