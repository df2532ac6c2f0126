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

/// At most one for each revision, so that an old number never overtakes a new one; a slow one holds up
/// no other.
pub(super) struct Writes {
    scale: Arc<dyn Scale>,
    revisions: BTreeSet<RevisionName>,
    under_way: FuturesUnordered<BoxFuture<'static, Written>>,
}

/// How one ended.
pub(super) struct Written {
    pub(super) revision: RevisionName,
    pub(super) result: Result<(), ClusterError>,
}

impl Writes {
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
            Written { revision, result }
        }));
    }

    /// Waits for the next to end; forever when there is none.
    pub(super) async fn next(&mut self) -> Written {
        match self.under_way.next().await {
            Some(written) => {
                self.revisions.remove(&written.revision);
                written
            }
            None => std::future::pending().await,
        }
    }
}
