//! Requests for replicas that are under way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use weir_cluster::{ClusterError, RevisionName, Scale};

/// A cluster that has not noted a number by then is asked again with the next decision.
const DEADLINE: Duration = Duration::from_secs(5);

/// Requests for replicas that are under way: at most one for each revision, so that an old number never overtakes a
/// new one; a slow one holds up no other.
pub(super) struct ScaleRequests {
    scale: Arc<dyn Scale>,
    revisions: BTreeSet<RevisionName>,
    under_way: FuturesUnordered<BoxFuture<'static, ScaleOutcome>>,
}

/// How a request for replicas ended.
pub(super) struct ScaleOutcome {
    revision: RevisionName,
    result: Result<(), ClusterError>,
}

impl ScaleRequests {
    pub(super) fn new(scale: Arc<dyn Scale>) -> Self {
        Self {
            scale,
            revisions: BTreeSet::new(),
            under_way: FuturesUnordered::new(),
        }
    }

    /// Whether one is under way for this revision.
    pub(super) fn has(&self, revision: &RevisionName) -> bool {
        self.revisions.contains(revision)
    }

    /// Asks for so many replicas.
    pub(super) fn begin(&mut self, revision: RevisionName, replicas: u32) {
        self.revisions.insert(revision.clone());
        let scale = self.scale.clone();
        self.under_way.push(Box::pin(async move {
            let asked = tokio::time::timeout(DEADLINE, scale.scale(&revision, replicas)).await;
            let result = asked.unwrap_or_else(|elapsed| {
                Err(ClusterError::Unavailable {
                    what: format!("scaling of {revision}"),
                    source: Box::new(elapsed),
                })
            });
            ScaleOutcome { revision, result }
        }));
    }

    /// Waits for the next to end; forever when there is none.
    pub(super) async fn next(&mut self) -> ScaleOutcome {
        match self.under_way.next().await {
            Some(outcome) => {
                self.revisions.remove(&outcome.revision);
                outcome
            }
            None => std::future::pending().await,
        }
    }
}

impl ScaleOutcome {
    /// Logs why the number of replicas was not changed.
    pub(super) fn log(&self) {
        let revision = &self.revision;
        match &self.result {
            Ok(()) => {}
            // The revision was removed in between.
            Err(ClusterError::UnknownRevision { .. }) => {
                tracing::debug!(%revision, "removed before it was scaled");
            }
            Err(
                error @ (ClusterError::Unavailable { .. }
                | ClusterError::Name { .. }
                | ClusterError::Denied { .. }
                | ClusterError::Refused { .. }),
            ) => tracing::warn!(%revision, %error, "cannot scale; retrying within a second"),
        }
    }
}
